"""Findings about tasks: what is injected is found, with its gain; what is even, short or explained is not."""

from dataclasses import replace

import pytest

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.functions import python_function
from rechannel.profiling.diagnosis.idle_cores import too_many_cores
from rechannel.profiling.diagnosis.memory import garbage, spill
from rechannel.profiling.diagnosis.registry import diagnosed
from rechannel.profiling.diagnosis.skew import skew
from rechannel.profiling.diagnosis.slow_executors import slow_executor
from rechannel.profiling.diagnosis.speculation import speculation
from rechannel.profiling.model.finding import Certainty
from rechannel.profiling.spark.task_events import Metrics
from tests.unit.profiling.diagnosis.applications import (
    MIB,
    START,
    Cluster,
    Did,
    Made,
    Maker,
    case_of,
    times,
    uneven,
)


def test_spilling_compared_with_tasks_that_do_not():
    wet = times(10, 9_000, read=100 * MIB, spilled=200 * MIB, peak=64 * MIB)
    dry = times(10, 1_000, read=50 * MIB, peak=64 * MIB)
    (found,) = spill(case_of([Made(tasks=[*wet, *dry])]))
    assert found.cause == "spill"
    assert found.certainty == Certainty.LIKELY
    assert "spills 2.0 GiB to disk (7.8 GiB in memory), in 10 of its 20 tasks" in found.text
    # 64 MiB at the end, and 800 MiB before.
    assert "a task would need about 864 MiB and had 64 MiB" in found.text
    assert "Cut the work into 14 times as many tasks" in found.advice
    assert "`spark.executor.memory` (1g now)" in found.advice
    assert found.seconds == pytest.approx((100 - 30) / 4, rel=0.2)


def test_spilling_of_all_tasks():
    case = case_of([Made(tasks=times(8, 9_000, read=MIB, spilled=50 * MIB, peak=10 * MIB))])
    (found,) = spill(case)
    assert found.certainty == Certainty.POSSIBLE
    assert "21 times as many tasks" in found.advice
    # 200 MiB in memory at 10 MiB a second are more than they took; one byte of 101 is read only.
    assert found.seconds == pytest.approx(18 * 0.9)


def test_the_stage_that_spills_most_is_the_one_that_is_named():
    jobs = [Did(ms=12_000, read=MIB, spilled=20 * MIB), Did(ms=9_000, read=MIB, spilled=50 * MIB)]
    case = case_of(*([Made(tasks=[did] * 8)] for did in (*jobs, Did(ms=1_000))))
    assert [len(family.stages) for family in case.families] == [3]
    (found,) = spill(case)
    assert found.text.startswith("Stage 1 (map at job.py:1), like 1 other, spills 400 MiB to disk")


def test_spilling_of_tasks_whose_memory_the_log_does_not_say():
    (found,) = spill(case_of([Made(tasks=times(8, 9_000, read=MIB, spilled=50 * MIB))]))
    assert "in all of its 8 tasks. The gain is" in found.text


@pytest.mark.parametrize("spilled", [0, MIB])
def test_no_spill(spilled):
    assert list(spill(case_of([Made(tasks=times(8, 9_000, spilled=spilled))]))) == []


def test_garbage_collection():
    case = case_of(
        [Made(tasks=times(8, 5_000, gc=2_500))], settings={"spark.executor.memory": "2g"}
    )
    (found,) = garbage(case)
    assert found.cause == "garbage-collection"
    assert "spend 50 % of their time in garbage collection, 20 s in all" in found.text
    assert "`spark.executor.memory` (2g now)" in found.advice
    assert found.seconds == pytest.approx(10 * 0.47)


def test_little_garbage_collection():
    assert list(garbage(case_of([Made(tasks=times(8, 5_000, gc=500))]))) == []
    assert list(garbage(case_of([Made(tasks=[])]))) == []


def test_a_slow_executor():
    cluster = Cluster(executors={"1": 4.0, "2": 1.0})
    case = case_of(*([Made(tasks=times(16, 1_000, read=MIB))] for _ in range(2)), cluster=cluster)
    assert set(case.durations((0, 0)).tolist()) == {1_000, 4_000}
    (found,) = slow_executor(case)
    assert found.cause == "slow-executor"
    assert found.place.executor == "1"
    assert found.place.host == "host1"
    assert "4.0 times as long as those of other executors" in found.text
    assert found.seconds > 1
    assert list(skew(case)) == []


@pytest.mark.parametrize(
    "cluster",
    [Cluster(executors={"1": 1.4, "2": 1.0}), Cluster(executors={"1": 1.0})],
)
def test_no_slow_executor(cluster):
    assert list(slow_executor(case_of([Made(tasks=times(32, 1_000))], cluster=cluster))) == []


@pytest.mark.parametrize(("megabytes", "count"), [(1, 1), (4, 0)])
def test_an_executor_with_more_data_is_not_slow(megabytes, count):
    maker = Maker()
    app = maker.made([[Made(tasks=[])]])
    start = START + 2_000
    for i in range(12):
        # The same host has all tasks that take long.
        name, did = (
            ("1", Did(ms=4_000, read=megabytes * MIB)) if i % 2 else ("2", Did(ms=1_000, read=MIB))
        )
        maker.add(7, i, name, (start, start + did.ms), did.metrics)
    case = Case(app=app)
    assert sorted(case.durations((7, 0)).tolist()) == [1_000] * 6 + [4_000] * 6
    assert len(list(slow_executor(case))) == count


def test_copies_that_overtake_a_hanging_host():
    maker = Maker()
    app = maker.made([[Made(tasks=times(8, 1_000))]])
    begun, end = maker.now, maker.now + 9_000
    for i in range(2):
        maker.add(5, i, "1", (begun, end), Metrics(run=1), good=False, killed=True)
        maker.add(5, i, "2", (end - 1_000, end), Metrics(run=990), speculative=True)
    (found,) = speculation(Case(app=app))
    assert found.cause == "speculation"
    assert "2 speculative copies of tasks, and 2 overtook the original" in found.text
    assert "2 of them on executor 1 on host host1" in found.text
    assert found.seconds == pytest.approx(8)


def test_a_copy_and_its_original_that_both_succeed():
    maker = Maker()
    app = maker.made([[Made(tasks=times(8, 1_000))]])
    begun, end = maker.now, maker.now + 9_000
    maker.add(5, 0, "1", (begun, end), Metrics(run=8_990))
    maker.add(5, 0, "2", (end - 1_000, end), Metrics(run=990), speculative=True)
    maker.add(5, 1, "1", (begun, begun + 1_000), Metrics(run=990))
    (found,) = speculation(Case(app=app))
    assert "1 speculative copy of tasks, and 1 overtook the original" in found.text
    assert found.seconds == pytest.approx(8)


def test_copies_in_vain():
    maker = Maker()
    app = maker.made([[Made(tasks=times(8, 1_000))]])
    begun = maker.now
    for i in range(4):
        maker.add(
            5,
            i,
            "1" if i < 2 else "2",
            (begun, begun + 5_000),
            Metrics(run=1),
            good=False,
            killed=True,
            speculative=True,
        )
        maker.add(5, i, "1" if i < 2 else "2", (begun + 5_000, begun + 10_000), Metrics(run=1))
    (found,) = speculation(Case(app=app))
    assert "and 0 overtook the original. Copies that were not needed ran for 20 s." in found.text
    assert "spark.speculation` to false" in found.advice


def test_no_speculation():
    assert list(speculation(case_of([Made(tasks=times(8, 1_000))]))) == []


UDF = ("BatchEvalPython [price(id#0L)#2], [pythonUDF0#5]",)


def test_a_slow_python_function():
    case = case_of([Made(tasks=times(8, 5_000, cpu=500), details=UDF, functions=("price",))])
    (found,) = python_function(case)
    assert found.cause == "python-function"
    assert "90 % of its tasks' time in the Python function price" in found.text
    assert found.seconds == pytest.approx(10 * 0.9 * 0.9, rel=0.01)


def test_python_functions_of_rdds():
    case = case_of([Made(tasks=times(8, 5_000, cpu=500), python=True)])
    (found,) = python_function(case)
    assert "90 % of its tasks' time in the Python functions of its RDDs" in found.text
    assert found.advice.startswith("Write them with Spark's own expressions on DataFrames")


def test_what_a_python_function_costs_beyond_a_hot_key():
    tasks = [replace(did, cpu=did.ms // 10) for did in uneven(41_000, 400)]
    case = case_of([Made(tasks=tasks, functions=("price",))])
    (hot,) = skew(case)
    (found,) = python_function(case)
    # Even tasks take 15 s in all, of which nine tenths are Python's, and of these a tenth is left.
    assert hot.seconds == pytest.approx(45 - 15)
    assert found.seconds == pytest.approx(15 * 0.9 * 0.9, rel=0.01)


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(Made(tasks=times(8, 5_000, cpu=500)), id="no function"),
        pytest.param(Made(tasks=times(8, 5_000, cpu=4_000), functions=("f",)), id="busy JVM"),
        pytest.param(Made(tasks=times(8, 5_000, cpu=0), functions=("f",)), id="no CPU time"),
    ],
)
def test_no_slow_python_function(stage):
    assert list(python_function(case_of([stage]))) == []


def test_more_cores_than_are_used():
    cluster = Cluster(executors={str(i): 1.0 for i in range(8)})
    case = case_of(*([Made(tasks=times(4, 5_000))] for _ in range(3)), cluster=cluster)
    (found,) = too_many_cores(case)
    assert found.gain is None
    # 60 of 16 * 16.3 core seconds.
    assert "up to 16 cores, and they work on tasks for 23 % of their time" in found.text
    assert not found.weighty


def test_cores_that_are_only_there_while_they_are_used():
    cluster = Cluster(executors={str(i): 1.0 for i in range(8)})
    app = Maker(cluster=cluster).made(
        [[Made(tasks=times(4, 20_000))], [Made(tasks=times(16, 500))]]
    )
    assert len(list(too_many_cores(Case(app=app)))) == 1
    # The first job uses four cores; the others are requested for the second one.
    requested = {
        name: replace(executor, added=app.jobs[1].start) if name > "1" else executor
        for name, executor in app.executors.items()
    }
    case = Case(app=replace(app, executors=requested))
    assert case.cores == 16
    before, after = app.jobs[1].start - START, app.end - app.jobs[1].start
    assert case.core_ms == 4 * before + 16 * after
    assert list(too_many_cores(case)) == []


@pytest.mark.parametrize(("name", "count"), [("driver", 0), ("1", 1)])
def test_a_local_run_has_no_executor_to_do_without(name, count):
    cluster = Cluster(executors={name: 1.0}, cores=16)
    case = case_of(*([Made(tasks=times(4, 5_000))] for _ in range(3)), cluster=cluster)
    assert len(list(too_many_cores(case))) == count


@pytest.mark.parametrize("count", [1, 8])
def test_cores_that_are_used(count):
    cluster = Cluster(executors={str(i): 1.0 for i in range(count)})
    assert list(too_many_cores(case_of([Made(tasks=times(64, 2_000))], cluster=cluster))) == []


def test_an_even_application_has_no_findings():
    shuffled = times(16, 900, read=10 * MIB, rows=1_000, peak=MIB, gc=20)
    case = case_of(
        *([Made(tasks=times(16, 1_000, input=64 * MIB)), Made(tasks=shuffled)] for _ in range(3))
    )
    assert diagnosed(case) == []


def test_findings_are_ordered_by_gain():
    case = case_of(
        [Made(tasks=uneven(41_000, 400)), Made(tasks=times(8, 5_000, gc=4_000), name="other")]
    )
    gains = [found.gain for found in diagnosed(case)]
    assert len(gains) > 1
    assert gains == sorted(gains, reverse=True)
