"""A cluster of three hosts in network namespaces: they lose power, are cut off and come back; the totals are exact."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.testing.loopback import Host
from rechannel.testing.namespaces import Namespaces, Network, ip, namespaces, network
from tests.spark.children import environment
from tests.spark.programs import PATIENCE, journal_of, session, until

KEYS, RATE = 1_000, 2_000
MEMORY_MB = 900
TIMEOUT = "-Dspark.worker.timeout=12"


def numbers(start: int, stop: int) -> pa.RecordBatch:
    """Rows as a function of their number."""
    number = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"k": number * 7919 % KEYS, "v": number})


def executors(spark: Any) -> set[str]:
    """Addresses of the hosts with an executor that the driver knows."""
    return {each.host for each in spark_cluster(spark).executors()}


def lose_power(cluster: Namespaces, spark: Any, job: rc.RunningJob) -> None:
    """A host dies, and comes back when the others have gone on."""
    host = cluster.hosts[0]
    cluster.lose_power(host)
    until(lambda: host not in executors(spark), "Spark takes the executor for lost")
    at = job.status.timestep or 0
    until(lambda: (job.status.timestep or 0) > at + 3, "the others go on")
    cluster.come_back(Host(address=host, memory_mb=MEMORY_MB))
    until(lambda: host in executors(spark), "the host has an executor again")


def cut_off(cluster: Namespaces, spark: Any, job: rc.RunningJob) -> None:
    """A host and the driver do not hear each other for 30 seconds."""
    host, driver = cluster.hosts[0], cluster.network.driver
    cluster.network.cut(host, driver)
    at = time.monotonic()
    until(lambda: host not in executors(spark), "Spark takes the executor for lost")
    until(lambda: time.monotonic() - at > 30, "30 seconds have passed")
    cluster.network.heal(host, driver)
    until(lambda: host in executors(spark), "the host has an executor again")


def cut_between(cluster: Namespaces, spark: Any, job: rc.RunningJob) -> None:
    """Two executors do not reach each other, and both reach the driver: Spark loses neither."""
    one, other = cluster.hosts[:2]
    cluster.network.cut(one, other)
    assert knock(cluster.network, one, other) == "silence"
    at = job.status.timestep or 0
    until(lambda: (job.status.timestep or 0) > at + 3, "the job goes on")
    cluster.network.heal(one, other)
    del spark


FAULTS = {each.__name__: each for each in (lose_power, cut_off, cut_between)}


def drive(place: str, fault: str) -> dict[str, Any]:
    """Run a job whose tasks are rescaled before, and after, a fault; what became of it."""
    path = environment()["PYTHONPATH"]
    around = {"PYTHONPATH": path, "SPARK_MASTER_OPTS": TIMEOUT, "SPARK_WORKER_OPTS": TIMEOUT}
    with namespaces(Path(place) / "cluster", 3, memory_mb=MEMORY_MB, environment=around) as cluster:
        spark = session(
            place,
            cluster.url,
            **cluster.settings,
            recovery="fast",
            spark__executor__memory="600m",
            spark__executorEnv__PYTHONPATH=path,
        )
        source = rc.read(spark).generator(
            numbers, schema="k BIGINT, v BIGINT", rows_per_second=RATE, name="numbers"
        )
        totals = source.key_by("k").aggregate(count=agg.count(), sum=agg.sum("v"), name="totals")
        settings = rc.Settings(tasks=6, interval_ms=250)
        job = rc.Job("totals", totals, state=f"{place}/state", settings=settings).start()
        until(lambda: (job.status.timestep or 0) > 5, "timesteps commit")
        until(lambda: len(executors(spark)) == 3, "there are three executors")
        job.reconfigure(rc.changes.rescale("totals", tasks=4)).wait(PATIENCE)
        FAULTS[fault](cluster, spark, job)
        job.reconfigure(rc.changes.rescale("totals", tasks=5)).wait(PATIENCE)
        at = job.status.timestep or 0
        until(lambda: (job.status.timestep or 0) > at + 3, "it goes on")
        job.stop(PATIENCE)
        rows = int(job.committed_offset("numbers")["rows"])
        seen = job.state("totals").selectExpr("k", "count", "sum").collect()
        spark.stop()
    return {"rows": rows, "state": sorted((row.k, row["count"], row["sum"]) for row in seen)}


@pytest.mark.parametrize(
    "fault",
    [
        "lose_power",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("cut_off", "cut_between")),
    ],
)
def test_totals_are_exact_whatever_the_network_does(child, tmp_path, fault):
    seen = child(drive, place=str(tmp_path), fault=fault).result(600)
    number = np.arange(seen["rows"], dtype=np.int64)
    keys = number * 7919 % KEYS
    counts = np.bincount(keys, minlength=KEYS)
    sums = np.bincount(keys, weights=number, minlength=KEYS).astype(np.int64)
    expected = list(zip(range(KEYS), counts.tolist(), sums.tolist(), strict=True))
    assert [tuple(each) for each in seen["state"]] == expected
    journal = journal_of(tmp_path / "state")
    assert journal.epoch == 1, "the driver was not the same throughout"


KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 9), 1.0)
except ConnectionRefusedError:
    print("heard")
except TimeoutError:
    print("silence")
"""


def knock(made: Network, here: str, there: str) -> str:
    """What a host hears of another on which nothing listens: a refusal, or nothing."""
    command = [*made.there(here), sys.executable, "-c", KNOCK, there]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_lines_are_cut_limited_and_mended():
    with network(2) as made:
        (one, other), driver = made.hosts, made.driver
        assert knock(made, one, other) == knock(made, driver, one) == "heard"
        made.cut(one, other)
        assert knock(made, one, other) == knock(made, other, one) == "silence"
        assert knock(made, one, driver) == "heard"
        made.heal(one, other)
        assert knock(made, one, other) == "heard"
        made.unplug(one)
        assert knock(made, driver, one) == "silence"
        made.plug_in(one)
        made.limit(one, 10)
        assert knock(made, driver, one) == "heard"
        names = made.names
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert not set(names) & set(left.stdout.split())


def test_two_networks_of_a_process_are_two():
    with network(1) as first:
        with network(1) as second:
            assert not set(first.names) & set(second.names)
            assert knock(second, second.driver, second.hosts[0]) == "heard"
        assert knock(first, first.driver, first.hosts[0]) == "heard"


def test_networks_do_not_outlive_a_process_that_is_killed(tmp_path):
    code = (
        "from rechannel.testing.namespaces import network\n"
        "with network(1) as made:\n"
        "    print(made.name, flush=True)\n"
        "    input()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        assert name in ip("netns", "list")
        child.kill()
    until(lambda: name not in ip("netns", "list"), "they are removed")
