"""From Kafka to Kafka on two hosts: drivers, executors and brokers are killed, partitions added, tasks rescaled."""

from __future__ import annotations

import json
import random
import signal
import time
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.testing.loopback import Host, Loopback, loopback
from tests.real.components.kafka import Kafka
from tests.real.kafka_programs import contents
from tests.spark.children import environment
from tests.spark.losing import executors
from tests.spark.programs import PATIENCE, journal_of, session, until

USERS, PARTITIONS, MORE = 5_000, 12, 14
EVERY = 4
"""Timesteps between two changes."""


def user(number: Any) -> Any:
    """The user of a number, or of an array of them."""
    return number * 7919 % USERS


def fill(bootstrap: str, first: int, end: int, partitions: int) -> None:
    """Produce the numbers from `first` on, before `end`, to partitions of which some may be new."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "compression.type": "lz4",
            "topic.metadata.refresh.interval.ms": 1_000,
        }
    )
    deadline = time.monotonic() + PATIENCE
    for number in range(first, end):
        value = b'{"user":%d,"n":%d}' % (user(number), number)
        while True:
            try:
                producer.produce("in", value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                # It has not heard of a new partition yet.
                unknown = error.args[0].code() == KafkaError._UNKNOWN_PARTITION
                if not unknown or time.monotonic() > deadline:
                    raise
                producer.poll(0.1)
    assert producer.flush(PATIENCE) == 0


def drive(
    place: str, bootstrap: str, url: str, settings: dict[str, str], per_timestep: int, rows: int
) -> list[int]:
    """Rescale every few timesteps until all rows are counted. Returns all timesteps, and changes of this driver."""
    spark = session(
        place,
        url,
        **settings,
        recovery="fast",
        spark__executor__memory="700m",
        spark__executorEnv__PYTHONPATH=environment()["PYTHONPATH"],
        spark__cores__max="2",
    )
    source = rc.read(spark).kafka(
        bootstrap, "in", per_timestep=per_timestep, wait_s=10.0, name="in"
    )
    totals = (
        source.decode_json("user bigint, n bigint")
        .key_by("user")
        .aggregate(count=agg.count(), sum=agg.sum("n"), name="totals")
    )
    flow = totals.write.on_failure("stop", attempts=60, pause_ms=200).kafka(
        bootstrap, "totals", key="user", wait_s=10.0, name="out"
    )
    job = rc.Job(
        "kafka", flow, state=f"{place}/state", settings=rc.Settings(tasks=3, in_flight=2)
    ).start()
    changes, at = 0, job.status.timestep or 0
    while _read(job) < rows:
        job.await_termination(0.05)
        done = job.status.timestep or 0
        if done >= at + EVERY:
            at, changes = done, changes + 1
            job.reconfigure(
                rc.changes.rescale("totals", tasks=1 + done // EVERY % 4),
                rc.strategies.fluid(bins=16),
            )
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    return [job.status.timestep or 0, changes]


def _read(job: rc.RunningJob) -> int:
    topics: dict[str, Any] = job.committed_offset("in").get("topics", {})
    return sum(sum(topic["next"].values()) for topic in topics.values())


def kill_executor(cluster: Loopback, choose: random.Random) -> None:
    """Kill an executor."""
    until(lambda: executors(str(cluster.place)), "there is an executor")
    choose.choice(executors(str(cluster.place))).kill()


def kill_broker(kafka: Kafka, choose: random.Random) -> None:
    """Kill a broker, and start it again."""
    number = choose.choice([1, 2, 3])
    kafka.kill(number)
    time.sleep(choose.uniform(0, 2.0))
    kafka.start(number)


@pytest.mark.parametrize(
    ("rows", "per_timestep", "kills"),
    [
        (240_000, 10_000, 3),
        pytest.param(10_000_000, 100_000, 20, marks=pytest.mark.slow),
    ],
)
def test_what_readers_see_is_exact(three_kafkas, child, tmp_path, rows, per_timestep, kills):
    three_kafkas.create("in", PARTITIONS)
    three_kafkas.create("totals", 3)
    choose, state = random.Random(kills), tmp_path / "state"
    early = rows * 9 // 10
    fill(three_kafkas.bootstrap, 0, early, PARTITIONS)
    path = {"PYTHONPATH": environment()["PYTHONPATH"]}
    hosts = [Host(address=f"127.0.0.{number}", environment=path) for number in (2, 3)]
    hit = dict.fromkeys(("driver", "executor", "broker"), 0)
    interrupted = 0
    with loopback(tmp_path / "cluster", hosts) as cluster:
        given = {
            "place": str(tmp_path),
            "bootstrap": three_kafkas.bootstrap,
            "url": cluster.url,
            "settings": dict(cluster.settings),
            "per_timestep": per_timestep,
            "rows": rows,
        }
        driver = child(drive, **given)
        for number in range(kills):
            if number == kills // 2:
                three_kafkas.add_partitions("in", MORE)
                fill(three_kafkas.bootstrap, early, rows, MORE)
            at = journal_of(state).last_committed or 0 if state.exists() else 0

            def goes_on(at: int = at, driver: Any = driver) -> bool:
                assert driver.running, driver.errors()
                return state.exists() and (journal_of(state).last_committed or 0) > at + 1

            until(goes_on, "timesteps commit")
            time.sleep(choose.uniform(0, 1.0))
            assert driver.running, driver.errors()
            kind = ("executor", "broker", "driver")[number % 3]
            hit[kind] += 1
            if kind == "executor":
                kill_executor(cluster, choose)
            elif kind == "broker":
                kill_broker(three_kafkas, choose)
            else:
                assert driver.kill() == -signal.SIGKILL
                after = journal_of(state)
                assert not after.closed, "the driver had ended of its own will"
                interrupted += bool(after.open_intents or after.unpublished)
                driver = child(drive, **given)
        timesteps, changes = driver.result(3_600)
    assert min(hit.values()) > 0
    assert interrupted or hit["driver"] < 3, "every kill happened to hit between two timesteps"
    assert timesteps >= rows // per_timestep
    assert changes, "no change was made"
    assert journal_of(state).epoch == hit["driver"] + 1
    check(three_kafkas.bootstrap, rows)


def check(bootstrap: str, rows: int) -> None:
    """Each total is greater than the one before it, and the last ones count every record once."""
    latest: dict[int, dict[str, Any]] = {}
    for row in contents(bootstrap, "totals"):
        assert json.loads(row["key"]) == row["user"]
        before = latest.get(row["user"])
        assert before is None or before["count"] < row["count"], "a timestep was published twice"
        latest[row["user"]] = row
    number = np.arange(rows, dtype=np.int64)
    counts = np.bincount(user(number), minlength=USERS)
    sums = np.bincount(user(number), weights=number, minlength=USERS).astype(np.int64)
    assert len(latest) == USERS
    assert all(row["count"] == counts[each] for each, row in latest.items())
    assert all(row["sum"] == sums[each] for each, row in latest.items())
