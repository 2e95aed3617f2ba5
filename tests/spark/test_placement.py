"""Tasks of stateful operators stay on their executors, and move when executors come and go, or on purpose."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from rechannel.engine.reconfigure.placement import moved_tasks
from rechannel.engine.spark.cluster import spark_cluster
from rechannel.engine.spark.warming import ROUNDS
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.testing.loopback import Host, loopback
from tests.spark.children import environment
from tests.spark.programs import (
    OPERATORS,
    PATIENCE,
    configured,
    ledger,
    session,
    start,
    tell,
    until,
)

pytestmark = pytest.mark.slow

TASKS = 6
HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
ENDLESS = 10**8
"""Rows of a job that is stopped."""

# A task waits for its executor, also on a busy machine. It is not much longer because tasks that were under
# way when an executor died wait as well: once for the executor and once for its host.
PATIENT = {
    "spark__executor__memory": "512m",
    "spark__locality__wait": "10s",
    "spark__speculation": "false",
}


def with_executors(cluster, count):
    """Wait for a number of executors; their ids."""
    alive = until(
        lambda: len(found := cluster.executors()) == count and found, f"{count} executors"
    )
    return [executor.id for executor in alive]


def warmed(spark, executors):
    """Wait until executors have run their first tasks."""
    store = spark.sparkContext._jsc.sc().statusStore()

    def ended():
        jobs = store.jobsList(None)
        found = [jobs.apply(number) for number in range(jobs.size())]
        done = [each for each in found if str(each.status()) == "SUCCEEDED"]
        told = [each.description() for each in done]
        texts = Counter(text.get() for text in told if text.isDefined())
        return all(
            texts[f"rechannel: first tasks of executor {each}"] > ROUNDS for each in executors
        )

    until(ended, "their first tasks end")


def window(job):
    """Numbers of some timesteps that all began after now."""
    now = job.status.timestep or 0
    until(lambda: job.status.timestep >= now + 6 or not job.is_active, "timesteps go on")
    assert job.is_active, job.exception()
    return [now + 3, now + 6]


def ran(state, first, last):
    """Executor of every task of the stateful operators in timesteps [first, last): the same in all of them."""
    places = {name: {} for name in OPERATORS}
    for event in read_events(Path(state) / "telemetry"):
        of_operator = isinstance(event, TaskFinished) and event.operator in OPERATORS
        if of_operator and first <= event.timestep < last and event.executor is not None:
            places[event.operator].setdefault(event.task, set()).add(event.executor)
    for tasks in places.values():
        assert sorted(tasks) == list(range(TASKS))
        assert {task: len(at) for task, at in tasks.items()} == dict.fromkeys(range(TASKS), 1)
    return {name: {task: min(at) for task, at in tasks.items()} for name, tasks in places.items()}


def balanced(places, count):
    """Whether as many executors have as many tasks of each operator."""
    return all(
        list(Counter(tasks.values()).values()) == [TASKS // count] * count
        for tasks in places.values()
    )


def name_of_cache(batches):
    """Where the workers of this host would keep a cache."""
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"at": [os.environ["RECHANNEL_CACHE_DIR"]]})


def caches(spark):
    rows = spark.range(0, 24, 1, 24).mapInArrow(name_of_cache, "at string").collect()
    return sorted({row["at"] for row in rows})


def lose_and_find(place, master):
    """A job on three hosts, of which one is lost and another one comes."""
    spark = session(place, master, spark__driver__host="127.0.0.1", **PATIENT)
    cluster = spark_cluster(spark)
    with_executors(cluster, 3)
    found = until(lambda: len(at := caches(spark)) == 3 and at, "all hosts ran tasks")
    tell(caches=found)
    job = start(spark, ledger(f"{place}/out", rows=ENDLESS), f"{place}/state", tasks=TASKS)
    for count in (3, 2, 3):
        executors = with_executors(cluster, count)
        warmed(spark, executors)
        tell(settled=[window(job), executors])
    job.stop(PATIENCE)
    return job.status.timestep


def test_tasks_stay_and_move_as_little_as_hosts_allow(child, tmp_path):
    hosts = [
        Host(address=at, cores=2, environment={"RECHANNEL_CACHE_DIR": f"/cache/{at}"})
        for at in HOSTS
    ]
    with loopback(tmp_path / "cluster", hosts, environment()) as cluster:
        assert cluster.hosts == HOSTS
        driver = child(lose_and_find, place=str(tmp_path), master=cluster.url)
        assert driver.hear("caches") == [f"/cache/{at}" for at in HOSTS]
        whole, three = driver.hear("settled")
        cluster.kill(HOSTS[2])
        assert cluster.hosts == HOSTS[:2]
        lost, two = driver.hear("settled")
        cluster.add(hosts[2])
        found, again = driver.hear("settled")
        driver.result(PATIENCE)
    (dead,), (new,) = set(three) - set(two), set(again) - set(two)
    assert dead != new
    before, without, after = (ran(tmp_path / "state", *each) for each in (whole, lost, found))
    assert balanced(before, 3)
    assert balanced(without, 2)
    assert balanced(after, 3)
    for name in OPERATORS:
        on_dead = tuple(task for task, at in before[name].items() if at == dead)
        assert len(on_dead) == 2
        assert moved_tasks(before[name], without[name]) == on_dead
        (a, b) = moved_tasks(without[name], after[name])
        assert after[name][a] == after[name][b] == new


PUT = {0: "1", 1: "1", 2: "1", 3: "1"}


def put(configuration):
    """The same with tasks put on an executor."""
    operator = configuration.operators["balances"]
    return configuration.with_operator("balances", replace(operator, placement=PUT))


def grow(place):
    """A job on two executors, with tasks put on one of them; then there are three."""
    spark = session(place, "local-cluster[3,2,1024]", **PATIENT)
    cluster = spark_cluster(spark)
    three = with_executors(cluster, 3)
    said = cluster.refuses_executors(4)
    cluster.request(2)
    cluster.decommission(three[2:])
    two = with_executors(cluster, 2)
    configured(put)
    job = start(spark, ledger(f"{place}/out", rows=ENDLESS), f"{place}/state", tasks=TASKS)
    before = window(job)
    cluster.request(3)
    again = with_executors(cluster, 3)
    warmed(spark, again)
    after = window(job)
    job.stop(PATIENCE)
    return {"said": said, "two": two, "again": again, "before": before, "after": after}


def test_tasks_are_where_they_were_put_and_a_new_executor_gets_work(child, tmp_path):
    seen = child(grow, place=str(tmp_path)).result(PATIENCE)
    assert "at most 3" in seen["said"]
    assert seen["two"] == ["0", "1"]
    (new,) = set(seen["again"]) - {"0", "1"}
    before, after = (ran(tmp_path / "state", *seen[name]) for name in ("before", "after"))
    assert before["balances"] == {**PUT, 4: "0", 5: "0"}
    assert {task: after["balances"][task] for task in PUT} == PUT
    assert Counter(after["balances"].values()) == {"1": 4, "0": 1, new: 1}
    for name in ("branches", "followed"):
        assert set(before[name].values()) == {"0", "1"}
        assert [after[name][task] for task in moved_tasks(before[name], after[name])] == [new, new]


def start_and_hang(place):
    """A cluster whose starter does not end."""
    with loopback(Path(place) / "cluster", []) as cluster:
        tell(pids=[process.pid for process in cluster._processes.values()])
        until(lambda: False, "nobody ends this")


def test_a_cluster_ends_with_who_started_it(child, tmp_path):
    starter = child(start_and_hang, place=str(tmp_path))
    (pid,) = starter.hear("pids")
    master = psutil.Process(pid)
    assert "org.apache.spark.deploy.master.Master" in master.cmdline()
    starter.kill()
    until(lambda: not master.is_running(), "the master is ended")
