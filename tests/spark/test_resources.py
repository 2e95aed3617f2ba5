"""What operators ask for their tasks: Spark gives it, or it is refused before anything runs."""

import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from rechannel.engine.spark.cluster import spark_cluster
from rechannel.engine.spark.session.profiles import Profiles
from rechannel.model.configuration import Resources
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.task_finished import TaskFinished
from tests.spark.holds import Marks, me
from tests.spark.programs import PATIENCE, configured, ledger, run, session, until

pytestmark = pytest.mark.slow

CORES, TASKS, TIMESTEPS = 4, 8, 4
TWO = Resources(cpus=2)


class Together:
    """Tasks that go on when so many of them run at the same time, and say from when to when they ran."""

    def __init__(self, place, together):
        self.marks = Marks(place)
        self.together = together

    def __call__(self, batches):
        for _ in batches:
            pass
        start = time.monotonic_ns()
        self.marks.put("started", **me())
        until(lambda: len(self.marks.of("started")) >= self.together, "enough tasks run")
        yield pa.RecordBatch.from_pydict({"start": [start], "stop": [time.monotonic_ns()]})


def most_at_a_time(intervals):
    """How many intervals overlap where most do."""
    edges = sorted([(start, 1) for start, _ in intervals] + [(stop, -1) for _, stop in intervals])
    running = most = 0
    for _, change in edges:
        running += change
        most = max(most, running)
    return most


def measured(spark, place, together, profile):
    rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(
        Together(place, together), "start bigint, stop bigint", profile=profile
    )
    return most_at_a_time([(row["start"], row["stop"]) for row in rows.collect()])


def asking(configuration):
    """The same, but all operators except one ask for two CPUs."""
    for name, operator in configuration.operators.items():
        if name != "branches":
            configuration = configuration.with_operator(name, replace(operator, resources=TWO))
    return configuration


def profiles_of_stages(spark, state):
    """Numbers of the resource profiles that each operator's stages ran with."""
    store = spark.sparkContext._jsc.sc().statusStore()
    found = defaultdict(set)
    for event in read_events(Path(state) / "telemetry"):
        if isinstance(event, TaskFinished) and event.spark is not None:
            stage = store.lastStageAttempt(event.spark.stage)
            found[event.operator].add(stage.resourceProfileId())
    return {name: sorted(numbers) for name, numbers in found.items()}


def drive(place):
    """Run tasks with and without resources on an executor of four cores."""
    spark = session(
        place, f"local-cluster[1,{CORES},1024]", spark__executor__memory="600m",
        spark__speculation="false",
    )  # fmt: skip
    cluster = spark_cluster(spark)
    until(lambda: len(cluster.executors()) == 1, "an executor")
    profiles = Profiles(cluster.limits)
    profile = profiles.of(TWO)
    asked = {
        "two": TWO,
        "all": Resources(cpus=CORES),
        "too many": Resources(cpus=CORES + 1),
        "memory": Resources(memory_mb=2000),
        "gpu": Resources(amounts={"gpu": 1}),
    }
    out = {
        "refused": {name: cluster.refuses_resources(each) for name, each in asked.items()},
        "once": profiles.of(Resources(cpus=2)) is profile,
        "plain": profiles.of(Resources()) is None,
        "without": measured(spark, f"{place}/without", CORES, None),
        "with": measured(spark, f"{place}/with", CORES // 2, profile),
    }
    configured(asking)
    job = run(spark, ledger(f"{place}/out", rows=TIMESTEPS * 300), f"{place}/state", tasks=3)
    out["timestep"] = job.status.timestep
    out["profiles"] = profiles_of_stages(spark, f"{place}/state")
    return out


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a process with an executor of its own saw."""
    from tests.spark.children import Child

    place = tmp_path_factory.mktemp("resources")
    child = Child(place / "child.log", drive, {"place": str(place)})
    try:
        yield child.result(PATIENCE)
    finally:
        child.close()


def test_tasks_of_two_cpus_run_half_as_many_at_a_time(seen):
    assert seen["without"] == CORES
    assert seen["with"] == CORES // 2


def test_there_is_one_profile_per_value(seen):
    assert seen["once"]
    assert seen["plain"]


def test_what_spark_would_wait_for_is_refused(seen):
    refused = seen["refused"]
    assert refused["two"] is refused["all"] is None
    assert "up to 4" in refused["too many"]
    assert "spark.dynamicAllocation.enabled=true" in refused["memory"]
    assert "spark.executor.resource.gpu.amount" in refused["gpu"]


def test_the_stages_of_an_operator_have_what_it_asks_for(seen):
    assert seen["timestep"] == TIMESTEPS
    profiles = dict(seen["profiles"])
    assert profiles.pop("branches") == [0]
    assert {"balances", "followed"} <= profiles.keys()
    (number,) = {tuple(numbers) for numbers in profiles.values()}
    assert len(number) == 1
    assert number != (0,)


def test_a_local_session_says_no(spark):
    cluster = spark_cluster(spark)
    assert "accepted is cpus=1" in cluster.refuses_resources(TWO)
    assert cluster.refuses_resources(Resources()) is None
    assert "accepted is 1 executor" in cluster.refuses_executors(2)
    assert "one executor" in cluster.refuses_place("driver")
