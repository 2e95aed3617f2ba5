"""Topics of a real broker, read as the driver and tasks read them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from rechannel.errors import SourceError, StorageError
from rechannel.sources.kafka.connector import KafkaConnector
from rechannel.sources.kafka.reader import KafkaReader
from rechannel.sources.reader import Bound, Offset
from tests.real.components.kafka import Kafka


def produce(kafka: Kafka, topic: str, numbers: Iterable[int], partitions: int = 1, **more) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 1})
    for number in numbers:
        producer.produce(
            topic, key=f"k{number}", value=json.dumps({"n": number}), partition=number % partitions,
            **more,
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(30) == 0


def reader(kafka: Kafka, *topics: str, **more) -> KafkaReader:
    more = {"wait_s": 10.0, **more}
    return KafkaReader(KafkaConnector(bootstrap=kafka.bootstrap, topics=topics, **more))


def look_until_it_raises(source: KafkaReader, at: Offset) -> None:
    """What is asked of topics counts for some seconds."""
    for _ in range(100):
        source.latest(at, 0)
        time.sleep(0.2)


def following(source: KafkaReader, at: Offset) -> Offset:
    """The next offset, once there is one: what was just committed may be seen a moment later."""
    deadline = time.monotonic() + 30
    while (end := source.latest(at, 0)) == at:
        assert time.monotonic() < deadline, "nothing new for 30 s"
        time.sleep(0.05)
    return end


def rows(source: KafkaReader, start: Offset, end: Offset) -> pa.Table:
    layout = source.layout(start, end)
    splits = source.split_reader(start, end, layout)
    batches = [batch for split in layout for batch in splits.read(split)]
    return pa.Table.from_batches(batches, source.schema)


def numbers(table: pa.Table) -> list[int]:
    return sorted(json.loads(value)["n"] for value in table["value"].to_pylist())


def test_records_have_their_columns(kafka):
    kafka.create("columns", 2)
    before = time.time()
    produce(kafka, "columns", range(3), 2, headers={"a": b"1"})
    source = reader(kafka, "columns", headers=True)
    end = source.latest(source.initial(), 0)
    table = rows(source, source.initial(), end)
    assert table.schema.equals(source.schema)
    found = sorted(table.to_pylist(), key=lambda row: row["key"])
    assert [(r["key"], r["partition"], r["offset"]) for r in found] == [
        (b"k0", 0, 0),
        (b"k1", 1, 0),
        (b"k2", 0, 1),
    ]
    assert found[0]["headers"] == [{"key": "a", "value": b"1"}]
    assert abs(found[0]["timestamp"].timestamp() - before) < 60
    assert {row["topic"] for row in found} == {"columns"}


def test_timesteps_read_every_record_once_and_replays_read_the_same(kafka):
    kafka.create("steps", 3)
    produce(kafka, "steps", range(5_000), 3)
    source = reader(kafka, "steps", per_timestep=700)
    at, seen = source.initial(), []
    while (end := source.latest(at, 0)) != at:
        once, again = rows(source, at, end), rows(source, at, end)
        assert once.equals(again)
        seen += numbers(once)
        at = end
    assert sorted(seen) == list(range(5_000))
    assert source.backlog(at, 0).rows == 0


def test_transactions_leave_gaps_and_aborted_records_are_left_out(kafka):
    kafka.create("transactions", 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    source, seen, at = reader(kafka, "transactions"), [], {"topics": {}}
    for step in range(10):
        producer.begin_transaction()
        for number in range(3):
            producer.produce("transactions", value=json.dumps({"n": 3 * step + number}))
        producer.flush(30)  # an abort takes back what was not sent
        if step % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        if step in (0, 1, 6):
            end = following(source, at)
            seen += numbers(rows(source, at, end))
            at = end
    while len(seen) < 15:
        end = following(source, at)
        seen += numbers(rows(source, at, end))
        at = end
    assert sorted(seen) == [3 * step + n for step in range(0, 10, 2) for n in range(3)]
    dirty = reader(kafka, "transactions", isolation="read_uncommitted")
    begun = dirty.latest(dirty.initial(), 0)
    assert numbers(rows(dirty, dirty.initial(), begun)) == list(range(30))


def test_an_open_transaction_is_read_when_it_is_over(kafka):
    kafka.create("open", 1)
    produce(kafka, "open", [0])
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "o"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", value=json.dumps({"n": 1}))
    producer.flush(30)
    produce(kafka, "open", [2])
    source = reader(kafka, "open")
    at = source.latest(source.initial(), 0)
    assert numbers(rows(source, source.initial(), at)) == [0]
    assert source.latest(at, 0) is at
    producer.commit_transaction(30)
    end = following(source, at)
    assert numbers(rows(source, at, end)) == [1, 2]


def test_compacted_topics_have_gaps(kafka):
    kafka.create(
        "compacted", 1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100", delete_retention_ms="100",
    )  # fmt: skip
    source = reader(kafka, "compacted")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(200):
        producer.produce("compacted", key=f"k{number % 5}", value=json.dumps({"n": number}))
    producer.flush(30)
    deadline = time.monotonic() + 60
    while True:
        time.sleep(0.3)
        producer.produce("compacted", key="last", value=json.dumps({"n": 1_000}))
        producer.flush(30)
        end = source.latest(source.initial(), 0)
        table = rows(source, source.initial(), end)
        if table.num_rows < 150:
            break
        assert time.monotonic() < deadline, "the broker has not compacted the topic"
    assert source.backlog(end, 0).rows == 0
    assert set(range(195, 200)) <= set(numbers(table))


def test_partitions_that_are_added_are_read_from_their_first_record(kafka):
    kafka.create("growing", 1)
    produce(kafka, "growing", range(10))
    source = reader(kafka, "growing", starting="latest")
    at = source.latest(source.initial(), 0)
    assert rows(source, source.initial(), at).num_rows == 0
    kafka.add_partitions("growing", 3)
    produce(kafka, "growing", range(10, 40), 3)
    seen = []
    while len(seen) < 30:
        end = following(source, at)
        seen += numbers(rows(source, at, end))
        at = end
    assert sorted(seen) == list(range(10, 40))


def test_a_topic_made_anew_is_noticed(kafka):
    kafka.create("anew", 1)
    produce(kafka, "anew", range(5))
    source = reader(kafka, "anew")
    at = source.latest(source.initial(), 0)
    kafka.delete("anew")
    kafka.create("anew", 1)
    produce(kafka, "anew", range(100, 120))
    layout = source.layout(source.initial(), at)
    with pytest.raises(SourceError, match=r"topic 'anew' .* is gone, or was made anew"):
        reader(kafka, "anew").split_reader(source.initial(), at, layout)
    with pytest.raises(
        SourceError, match="anew/0 belongs to a topic that was deleted and made anew"
    ):
        look_until_it_raises(reader(kafka, "anew"), at)
    skipping = reader(kafka, "anew", on_lost="skip")
    end = skipping.latest(at, 0)
    assert numbers(rows(skipping, at, end)) == list(range(100, 120))


def test_a_topic_that_is_deleted_stops_the_job(kafka):
    kafka.create("deleted", 1)
    produce(kafka, "deleted", range(5))
    source = reader(kafka, "deleted")
    at = source.latest(source.initial(), 0)
    kafka.delete("deleted")
    with pytest.raises(SourceError, match=r"topic 'deleted' .* is gone"):
        look_until_it_raises(source, at)


def test_records_that_retention_has_deleted_are_told(kafka):
    from confluent_kafka import TopicPartition

    kafka.create("short", 1)
    produce(kafka, "short", range(10))
    source = reader(kafka, "short", per_timestep=4)
    longer = source.latest(source.initial(), 0, Bound(units=9))
    at = source.latest(source.initial(), 0)
    (gone,) = kafka.admin().delete_records([TopicPartition("short", 0, 7)]).values()
    gone.result(30)
    with pytest.raises(SourceError, match="short/0 has lost 3 records that were not read"):
        reader(kafka, "short").latest(at, 0)
    with pytest.raises(SourceError, match=r"short/0 .*(?i:out of range)"):
        rows(source, source.initial(), at)
    skipping = reader(kafka, "short", on_lost="skip")
    assert rows(skipping, skipping.initial(), at).num_rows == 0
    assert numbers(rows(skipping, skipping.initial(), longer)) == [7, 8]
    end = skipping.latest(at, 0)
    assert numbers(rows(skipping, at, end)) == [7, 8, 9]


def test_a_stream_begins_at_a_time_or_at_offsets(kafka):
    kafka.create("starts", 1)
    for number in range(10):
        produce(kafka, "starts", [number], timestamp=1_000_000 + 1_000 * number)
    cases = [
        (datetime.fromtimestamp(1_006, UTC), [6, 7, 8, 9]),
        (datetime.fromtimestamp(2_000, UTC), []),
        ({"starts": {0: 8}}, [8, 9]),
        ("latest", []),
        ("earliest", list(range(10))),
    ]
    for starting, expected in cases:
        source = reader(kafka, "starts", starting=starting)
        end = source.latest(source.initial(), 0)
        assert numbers(rows(source, source.initial(), end)) == expected


def test_topics_like_a_pattern_are_found_while_running(kafka):
    kafka.create("like-a", 1)
    produce(kafka, "like-a", [1])
    source = KafkaReader(KafkaConnector(bootstrap=kafka.bootstrap, pattern="like-.*"))
    at = source.latest(source.initial(), 0)
    kafka.create("like-b", 1)
    produce(kafka, "like-b", [2])
    assert numbers(rows(source, source.initial(), at)) == [1]
    assert numbers(rows(source, at, following(source, at))) == [2]


def test_a_broker_that_is_killed_loses_nothing(own_kafka):
    own_kafka.create("killed", 2)
    produce(own_kafka, "killed", range(1_000), 2)
    source = reader(own_kafka, "killed", per_timestep=300, wait_s=3.0)
    at = source.latest(source.initial(), 0)
    seen = numbers(rows(source, source.initial(), at))
    own_kafka.kill()
    assert source.latest(at, 0) is at
    assert "do not say" in str(source.complaint)
    own_kafka.start()
    deadline = time.monotonic() + 60
    while len(seen) < 1_000 and time.monotonic() < deadline:
        end = source.latest(at, 0)
        try:
            seen += numbers(rows(source, at, end))
        except StorageError:
            continue  # as the loop does: the timestep runs again
        at = end
    assert sorted(seen) == list(range(1_000))
    assert source.complaint is None


def test_a_group_is_told_what_is_committed(kafka):
    from confluent_kafka import Consumer, TopicPartition

    kafka.create("told", 1)
    produce(kafka, "told", range(10))
    source = reader(kafka, "told", group="lag")
    end = source.latest(source.initial(), 0)
    source.committed(end)
    asked = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "lag"})
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        (position,) = asked.committed([TopicPartition("told", 0)], 10)
        if position.offset == 10:
            break
        time.sleep(0.1)
    assert position.offset == 10
    asked.close()
    source.close()
