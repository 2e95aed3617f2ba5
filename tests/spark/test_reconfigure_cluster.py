"""Reconfigurations on several hosts: state travels, executors die, come and go, and the result is the same."""

import pytest

import rechannel as rc
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.testing.loopback import Host, loopback
from tests.spark.children import environment
from tests.spark.programs import (
    PATIENCE,
    ledger,
    outputs,
    run,
    session,
    start,
    states,
    tell,
    until,
)

pytestmark = pytest.mark.slow

HOSTS = ("127.0.0.2", "127.0.0.3")
TASKS, BINS = 4, 32
PATIENT = {"spark__executor__memory": "512m", "spark__locality__wait": "3s"}


def executors(cluster, count):
    """Wait for a number of executors; their ids."""
    alive = until(
        lambda: len(found := cluster.executors()) == count and found, f"{count} executors"
    )
    return [executor.id for executor in alive]


def places(job, operator):
    """Executor of every task, as the runner puts them."""
    return job._parts.runner.placing.places.get(operator, {})


def travel(place, master):
    """Half of the bins of one host move to the other one; an executor dies on the way."""
    spark = session(place, master, spark__driver__host="127.0.0.1", **PATIENT)
    cluster = spark_cluster(spark)
    executors(cluster, 2)
    job = start(
        spark, ledger(f"{place}/out"), f"{place}/state",
        tasks=TASKS, bins=BINS, interval_ms=250, cache=f"{place}/cache",
    )  # fmt: skip
    at = until(lambda: len(p := places(job, "balances")) == TASKS and p, "tasks are placed")
    until(lambda: job.status.timestep >= 3, "there is state")
    here, there = sorted(set(at.values()))
    routing = job.configuration.operators["balances"].routing
    giving = [b for task, e in at.items() if e == here for b in routing.bins_of(task)]
    taker = next(task for task, e in at.items() if e == there)
    plan = job.plan(rc.changes.move("balances", giving[::2], taker), rc.strategies.fluid(2))
    handle = job.reconfigure(plan)
    until(lambda: len(handle.record.taken) >= 2, "some steps are made")
    tell(moving={"prepared": dict(handle.record.prepared), "bins": plan.bins, "kill": there})
    executors(cluster, 1)
    tell(lost=True)
    handle.wait(PATIENCE)
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    return handle.summary().to_dict()


def test_state_travels_and_an_executor_dies_on_the_way(spark, child, tmp_path, undisturbed):
    hosts = [
        Host(address=at, cores=1, environment={"RECHANNEL_CACHE_DIR": str(tmp_path / at)})
        for at in HOSTS
    ]
    with loopback(tmp_path / "cluster", hosts, environment()) as cluster:
        driver = child(travel, place=str(tmp_path), master=cluster.url)
        facts = driver.hear("moving")
        assert facts["prepared"]["bytes_fetched"] > 0
        assert facts["prepared"]["pieces"] >= 1
        caches = {at: len(list((tmp_path / at).rglob("*"))) for at in HOSTS}
        assert all(caches.values()), caches
        cluster.kill(HOSTS[1] if facts["kill"] == "1" else HOSTS[0])
        assert driver.hear("lost")
        summary = driver.result(PATIENCE)
    assert summary["phase"] == "done"
    assert summary["bins"] == facts["bins"]
    assert outputs(tmp_path / "out") == undisturbed[1]
    resumed = run(spark, ledger(tmp_path / "out"), tmp_path / "state")
    assert states(resumed) == undisturbed[0]


def fewer_and_more(place):
    """Two executors of three, and three again; every border uses what there is."""
    spark = session(place, "local-cluster[3,1,1024]", **PATIENT)
    cluster = spark_cluster(spark)
    before = executors(cluster, 3)
    job = start(spark, ledger(f"{place}/out"), f"{place}/state", tasks=6, interval_ms=400)
    until(lambda: len(set(places(job, "balances").values())) == 3, "all executors are used")
    job.reconfigure(rc.changes.executors(2)).wait(PATIENCE)
    left = executors(cluster, 2)
    until(lambda: set(places(job, "balances").values()) == set(left), "two are used")
    job.reconfigure([rc.changes.executors(3), rc.changes.rescale("balances", 9)]).wait(PATIENCE)
    again = executors(cluster, 3)
    until(lambda: set(places(job, "balances").values()) == set(again), "the new one is used")
    job.process_all_available(PATIENCE)
    job.stop(PATIENCE)
    (new,) = set(again) - set(left)
    assert new not in before
    return [one.phase for one in job.history()]


def test_executors_go_and_come_and_are_used(spark, child, tmp_path, undisturbed):
    driver = child(fewer_and_more, place=str(tmp_path))
    assert driver.result(PATIENCE) == ["done", "done"]
    assert outputs(tmp_path / "out") == undisturbed[1]
    resumed = run(spark, ledger(tmp_path / "out"), tmp_path / "state")
    assert states(resumed) == undisturbed[0]
