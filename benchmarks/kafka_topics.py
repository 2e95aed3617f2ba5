"""Topics that `kafka` and `kafka-latency` fill and look at, with the public client. For every side."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.harness import Parameters

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The latest connector of Spark for Kafka; it works with Spark 4.3 too."""
PATIENCE_SECONDS = 120.0
SCHEMA = "user BIGINT, created_ms BIGINT, amount BIGINT, text STRING"


@contextmanager
def broker(parameters: Parameters, folder: Path) -> Iterator[str]:
    """Return the address of the broker that is named, or of one that is started for as long as the context lasts."""
    if parameters["bootstrap"]:
        yield parameters["bootstrap"]
        return
    from tests.real.components.kafka import Kafka

    kafka = Kafka(folder)
    kafka.start()
    try:
        yield kafka.bootstrap
    finally:
        kafka.stop()


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_SECONDS)


def record(number: int, keys: int, created_ms: int) -> bytes:
    """Return a record of some 100 bytes."""
    user = number * 2_654_435_761 % (1 << 32) * keys >> 32
    text = f"{number * 40_503 % 65_536:05d}" * 6
    value = {"user": user, "created_ms": created_ms, "amount": number % 1_000, "text": text}
    return json.dumps(value, separators=(",", ":")).encode()


def fill(bootstrap: str, topic: str, parameters: Parameters) -> None:
    """Produce ``rows`` records, by turns to each partition."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"}
    )
    partitions, keys = parameters["partitions"], parameters["keys"]
    for number in range(parameters["rows"]):
        while True:
            try:
                producer.produce(topic, record(number, keys, number), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(PATIENCE_SECONDS):
        raise RuntimeError("the broker did not take all records")


def messages(
    bootstrap: str, topic: str, *, committed: bool, ends: bool = True
) -> Iterator[Message | None]:
    """Yield what a reader sees of a topic from its beginning.

    ends: stop at the topic's end; otherwise yield None where there is nothing.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": ends,
            "fetch.wait.max.ms": 5,
        }
    )
    partitions = consumer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    ended = set[int]()
    try:
        while len(ended) < len(partitions):
            message = consumer.poll(0.1)
            if message is None:
                if not ends:
                    yield None
                continue
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise RuntimeError(str(error))
    finally:
        consumer.close()


def totals(bootstrap: str, topic: str, *, committed: bool) -> dict[int, dict[str, Any]]:
    """Return the latest totals of each user."""
    latest: dict[int, dict[str, Any]] = {}
    for message in messages(bootstrap, topic, committed=committed):
        if message is None:
            continue
        row = json.loads(message.value() or b"null")
        before = latest.get(row["user"])
        if before is None or before["n"] < row["n"]:
            latest[row["user"]] = row
    return latest


def check_totals(bootstrap: str, topic: str, parameters: Parameters, *, committed: bool) -> None:
    """Raise RuntimeError unless the totals count every record once."""
    found = sum(row["n"] for row in totals(bootstrap, topic, committed=committed).values())
    if found != parameters["rows"]:
        raise RuntimeError(f"the totals count {found} records of {parameters['rows']}")


@contextmanager
def clocked_producer(bootstrap: str, topic: str, parameters: Parameters) -> Iterator[None]:
    """Run a process that produces ``rate`` records per second, until the context ends."""
    arguments = [bootstrap, topic, str(parameters["rate"]), str(parameters["keys"])]
    command = [sys.executable, "-m", "benchmarks.kafka_topics", "produce", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


def produce_by_the_clock(bootstrap: str, topic: str, rate: int, keys: int) -> None:
    """Produce without end; each record is created when it is due."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    partitions = len(producer.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions)
    began, number = time.time(), 0
    while True:
        due = int((time.time() - began) * rate)
        while number < due:
            created_ms = int((began + number / rate) * 1e3)
            producer.produce(topic, record(number, keys, created_ms), partition=number % partitions)
            number += 1
        producer.poll(0)
        time.sleep(0.001)


def waits(
    bootstrap: str, topic: str, parameters: Parameters, *, committed: bool
) -> list[tuple[float, float]]:
    """Return (seconds since now, ms from the creation of a user's latest record to its total), record by record.

    A process of its own reads: in that of the side it would compete with what is measured.
    """
    seconds = parameters["warmup_seconds"] + parameters["seconds"]
    arguments = [bootstrap, topic, str(seconds), "committed" if committed else ""]
    command = [sys.executable, "-m", "benchmarks.kafka_topics", "read", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return [(at, wait) for at, wait in json.loads(done.stdout)]


def read_for(
    bootstrap: str, topic: str, seconds: float, *, committed: bool
) -> list[tuple[float, float]]:
    """Read what `waits` returns."""
    began = time.time()
    out: list[tuple[float, float]] = []
    for message in messages(bootstrap, topic, committed=committed, ends=False):
        now = time.time()
        if now > began + seconds:
            break
        if message is not None:
            row = json.loads(message.value() or b"null")
            out.append((now - began, now * 1e3 - row["latest_ms"]))
    return out


def main(do: str, bootstrap: str, topic: str, one: str, other: str) -> None:
    """Produce by the clock (one: records per second, other: keys), or read (one: seconds, other: what counts)."""
    if do == "produce":
        produce_by_the_clock(bootstrap, topic, int(one), int(other))
    else:
        print(json.dumps(read_for(bootstrap, topic, float(one), committed=bool(other))))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
