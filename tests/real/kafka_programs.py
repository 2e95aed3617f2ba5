"""Dataflows from Kafka to Kafka, and what their topics hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import rechannel as rc
from rechannel import aggregates as agg
from tests.spark.programs import run, session

USERS = 97


def value(number: int) -> bytes:
    """The record of a number."""
    return json.dumps({"user": f"u{number * 7919 % USERS}", "n": number}).encode()


def fill(bootstrap: str, topic: str, numbers: range, partitions: int) -> None:
    """Produce numbers."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in numbers:
        while True:
            try:
                producer.produce(topic, value(number), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def flows(bootstrap: str, per_timestep: int | None = None) -> list[Any]:
    """Every record again, and totals per user."""
    records = rc.read().kafka(bootstrap, "in", per_timestep=per_timestep, wait_s=10.0, name="in")
    events = records.decode_json("user string, n bigint", name="events")
    totals = events.key_by("user").aggregate(count=agg.count(), sum=agg.sum("n"), name="totals")
    copies = events.select("user", "n", name="copies")
    return [
        totals.write.on_failure("stop", attempts=60, pause_ms=200).kafka(
            bootstrap, "totals", key="user", wait_s=10.0, name="to-totals"
        ),
        copies.write.on_failure("stop", attempts=60, pause_ms=200).kafka(
            bootstrap, "copies", wait_s=10.0, name="to-copies"
        ),
    ]


def drive(place: str, bootstrap: str, per_timestep: int) -> int:
    """Process everything there is."""
    spark = session(place)
    job = run(spark, flows(bootstrap, per_timestep), f"{place}/state", name="kafka", in_flight=2)
    return job.status.timestep or 0


def contents(
    bootstrap: str, topic: str, isolation: str = "read_committed"
) -> Iterator[dict[str, Any]]:
    """What a reader sees of a topic, partition by partition; of records without a value their keys."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    ended = set[int]()
    while len(ended) < len(partitions):
        (found,) = consumer.consume(1, 30) or [None]
        assert found is not None, f"{topic}: nothing for 30 s"
        error = found.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(found.partition())
            continue
        yield {"key": found.key(), **json.loads(found.value() or b"{}")}
    consumer.close()


def check(bootstrap: str, rows: int) -> None:
    """Everything is there exactly once."""
    copies = Counter(row["n"] for row in contents(bootstrap, "copies"))
    assert sum(copies.values()) == len(copies) == rows
    assert set(copies) == set(range(rows))
    latest: dict[str, dict[str, Any]] = {}
    for row in contents(bootstrap, "totals"):
        assert row["key"].decode() == row["user"]
        before = latest.get(row["user"])
        assert before is None or before["count"] < row["count"], "a timestep was published twice"
        latest[row["user"]] = row
    expected = {user: [0, 0] for user in latest}
    for number in range(rows):
        of = expected[f"u{number * 7919 % USERS}"]
        of[0] += 1
        of[1] += number
    assert {user: [row["count"], row["sum"]] for user, row in latest.items()} == expected
