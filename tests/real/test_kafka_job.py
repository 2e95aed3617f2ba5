"""Jobs from Kafka to Kafka: what readers see is exact, whatever dies."""

from __future__ import annotations

import random
import time

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import FencedError, RefusedError, StorageError
from rechannel.job import InProcess
from rechannel.sinks.batch import Batch
from rechannel.sinks.kafka.outlet import KafkaOutlet
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.writer import Rows
from rechannel.state.stores.local import LocalStore
from rechannel.testing import script
from tests.real.components.kafka import Kafka
from tests.real.kafka_programs import check, contents, drive, fill, flows
from tests.real.kills import kill_drivers
from tests.spark.programs import start, until

ROWS = 20_000


def topics(kafka: Kafka) -> None:
    for name, partitions in (("in", 4), ("totals", 3), ("copies", 2)):
        kafka.create(name, partitions)


def test_a_job_in_process(own_kafka, tmp_path):
    topics(own_kafka)
    fill(own_kafka.bootstrap, "in", range(5_000), 4)
    job = rc.Job("kafka", flows(own_kafka.bootstrap, 1_000), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    running.process_all_available()
    assert running.status.timestep == 5
    fill(own_kafka.bootstrap, "in", range(5_000, 6_000), 4)
    running.process_all_available()
    running.stop()
    check(own_kafka.bootstrap, 6_000)


def test_a_key_that_is_gone_gets_a_record_without_value(kafka, tmp_path):
    kafka.create("spells", 2)
    rows = script("user STRING, n BIGINT", [[{"user": u, "n": 1} for u in ("ann", "bob", "cat")]])
    spells = rc.read().memory(rows).key_by("user").track(spell, state="n BIGINT", name="spells")
    flow = spells.changelog().write.kafka(kafka.bootstrap, "spells", key="user", changes="change")
    running = rc.Job("spells", flow, state=tmp_path / "state").start(in_process=InProcess())
    running.process_all_available()
    rows.push([{"user": "ann", "n": 5}, {"user": "bob", "n": -9}])
    running.process_all_available()
    rows.push([{"user": "bob", "n": 2}, {"user": "cat", "n": -9}])
    running.process_all_available()
    running.stop()
    newest, gone = {}, 0
    for record in contents(kafka.bootstrap, "spells"):
        gone += len(record) == 1
        newest[record["key"]] = record.get("n")
    assert newest == {b"ann": 6, b"bob": 2, b"cat": None}
    assert gone == 2


def spell(_key, state, rows):
    n = (state or 0) + sum(rows["n"])
    return None if n < 0 else n


def test_a_job_on_spark_that_is_rescaled(own_kafka, spark, tmp_path):
    topics(own_kafka)
    fill(own_kafka.bootstrap, "in", range(ROWS), 4)
    running = start(spark, flows(own_kafka.bootstrap, 1_000), tmp_path / "state", name="kafka")
    for tasks in (3, 1, 2):
        running.reconfigure(rc.changes.rescale("totals", tasks)).wait(60)
    own_kafka.add_partitions("in", 6)
    running.process_all_available()
    time.sleep(6)  # until the new partitions are looked for
    fill(own_kafka.bootstrap, "in", range(ROWS, ROWS + 3_000), 6)
    running.process_all_available()
    running.stop()
    check(own_kafka.bootstrap, ROWS + 3_000)


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_drivers_and_brokers_are_killed(three_kafkas, child, tmp_path, kills):
    topics(three_kafkas)
    rows = 5_000 * (kills + 2)
    fill(three_kafkas.bootstrap, "in", range(rows), 4)

    def kill_broker(number: int, choose: random.Random) -> None:
        if number % 2:
            broker = choose.choice([1, 2, 3])
            three_kafkas.kill(broker)
            time.sleep(choose.uniform(0, 2.0))
            three_kafkas.start(broker)
            time.sleep(choose.uniform(0, 1.0))

    given = {
        "place": str(tmp_path),
        "bootstrap": three_kafkas.bootstrap,
        "per_timestep": 500,
    }
    state = LocalStore(tmp_path / "state")
    assert kill_drivers(child, drive, given, state, kills=kills, between=kill_broker) > 0
    check(three_kafkas.bootstrap, rows)


def test_a_job_goes_on_when_brokers_are_back(own_kafka, tmp_path):
    own_kafka.create("in", 2)
    fill(own_kafka.bootstrap, "in", range(4_000), 2)
    records = rc.read().kafka(own_kafka.bootstrap, "in", per_timestep=400, wait_s=1.0, name="in")
    events = records.decode_json("n bigint").map_batches(slowly, name="slowly")
    job = rc.Job("away", events.write.memory("out", name="out"), state=tmp_path / "state")
    running = job.start(in_process=InProcess())
    until(lambda: (running.status.timestep or 0) >= 2, "two timesteps commit")
    own_kafka.kill()
    until(lambda: running.status.troubles, "the job says that brokers do not answer")
    assert running.is_active
    time.sleep(2)
    own_kafka.start()
    running.process_all_available(120)
    running.stop()
    assert sorted(running.memory("out")["n"].to_pylist()) == list(range(4_000))


def slowly(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as they are, after a while."""
    time.sleep(0.2)
    return batch


# The writer alone ------------------------------------------------------------------------------------


def writer(kafka: Kafka, topic: str, job: str = "job", **more):
    outlet = KafkaOutlet(bootstrap=kafka.bootstrap, topic=topic, **{"wait_s": 10.0, **more})
    return outlet.open(SinkContext(job=job, name="out"))


def numbers(*some: int) -> Rows:
    batch = pa.record_batch({"n": pa.array(some, pa.int64())})
    return Rows(tables=lambda: iter([batch]), schema=batch.schema)


def seen(kafka: Kafka, topic: str) -> list[int]:
    return sorted(row["n"] for row in contents(kafka.bootstrap, topic))


def step(number: int, digest: str = "d") -> Batch:
    return Batch(timestep=number, incarnation="i", digest=f"{digest}{number}")


def test_a_timestep_is_published_once(kafka):
    kafka.create("once")
    first = writer(kafka, "once")
    first.begin()
    for number in (1, 2):
        first.publish(first.stage(numbers(number), step(number)), step(number))
    first.publish(first.stage(numbers(2), step(2)), step(2))
    second = writer(kafka, "once")
    second.begin()
    for number in (1, 2, 3):
        second.publish(second.stage(numbers(number), step(number)), step(number))
    assert seen(kafka, "once") == [1, 2, 3]
    second.close()


@pytest.mark.parametrize("before", [0, 1, 2])
def test_what_was_staged_and_not_published_is_seen_by_nobody(kafka, before):
    """Whichever of the two producers has the open transaction."""
    topic = f"staged-{before}"
    kafka.create(topic)
    first = writer(kafka, topic)
    first.begin()
    for number in range(before):
        first.publish(first.stage(numbers(number), step(number)), step(number))
    first.stage(numbers(7), step(7))
    second = writer(kafka, topic)
    second.begin()
    with pytest.raises(FencedError, match="another driver writes"):
        first.publish({}, step(7))
    for number in (*range(before), 7):
        second.publish(second.stage(numbers(number), step(number)), step(number))
    assert seen(kafka, topic) == [*range(before), 7]


def test_many_timesteps_without_a_pause_are_published_in_order(kafka):
    """The two producers' transactions follow each other in the topic, and the last one is the mark."""
    kafka.create("many")
    first = writer(kafka, "many")
    first.begin()
    for number in range(40):
        first.publish(first.stage(numbers(number), step(number)), step(number))
    assert [row["n"] for row in contents(kafka.bootstrap, "many")] == list(range(40))
    second = writer(kafka, "many")
    second.begin()
    for number in (38, 39, 40):
        second.publish(second.stage(numbers(number), step(number)), step(number))
    assert [row["n"] for row in contents(kafka.bootstrap, "many")] == list(range(41))


def test_a_state_directory_that_is_older_than_the_topic_is_refused(kafka):
    from rechannel.sinks.claims import Ledger

    kafka.create("older")
    one = writer(kafka, "older")
    one.begin()
    one.publish(one.stage(numbers(1), step(7)), step(7))
    outlet = KafkaOutlet(bootstrap=kafka.bootstrap, topic="older", wait_s=10.0)

    def open_with(**known):
        ledger = Ledger(opening="o", epoch=2, **known)
        return outlet.open(SinkContext(job="job", name="out", ledger=lambda: ledger))

    with pytest.raises(RefusedError, match=r"has timestep 7 .* its last commit is timestep 5"):
        open_with(committed=5).begin()
    with pytest.raises(RefusedError, match="has timestep 7"):
        open_with(committed=9, digests={7: "other"}).begin()
    open_with(committed=9, digests={7: "d7"}).begin()
    again = open_with(committed=5, remove_later=True)
    again.begin()
    again.stage(numbers(6), step(6))
    again.publish(again.stage(numbers(6), step(6)), step(6))  # over a producer of its own
    assert seen(kafka, "older") == [1, 6]


def test_a_topic_that_does_not_exist_is_named(kafka):
    with pytest.raises(RefusedError, match=r"there is no topic 'nowhere' at .*: create it"):
        writer(kafka, "nowhere").begin()


def test_at_least_once_has_no_transactions(kafka):
    kafka.create("often")
    out = writer(kafka, "often", exactly_once=False)
    out.begin()
    for number in (1, 1, 2):
        out.publish(out.stage(numbers(number), step(number)), step(number))
    assert seen(kafka, "often") == [1, 1, 2]


def test_brokers_that_die_between_staging_and_publishing(own_kafka):
    own_kafka.create("dies")
    out = writer(own_kafka, "dies", wait_s=3.0)
    out.begin()
    out.publish(out.stage(numbers(1), step(1)), step(1))
    out.stage(numbers(2), step(2))
    assert seen(own_kafka, "dies") == [1]
    own_kafka.kill()
    with pytest.raises(StorageError, match=r"does not take the rows|did not return within 6 s"):
        out.publish({}, step(2))
    own_kafka.start()
    deadline = time.monotonic() + 60
    while True:
        try:
            out.publish(out.stage(numbers(2), step(2)), step(2))
            break
        except StorageError:
            assert time.monotonic() < deadline
    assert seen(own_kafka, "dies") == [1, 2]
