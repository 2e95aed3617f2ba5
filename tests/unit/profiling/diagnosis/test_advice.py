"""What is advised depends on what a stage does."""

from math import isfinite

import pytest

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.partitions import too_few
from rechannel.profiling.diagnosis.skew import skew
from rechannel.profiling.diagnosis.slow_executors import slow_executor
from rechannel.profiling.diagnosis.speculation import speculation
from rechannel.profiling.spark.task_events import Metrics
from tests.unit.profiling.diagnosis.applications import (
    MIB,
    Cluster,
    Did,
    Made,
    Maker,
    case_of,
    times,
    uneven,
)

SHUFFLE = "Exchange hashpartitioning(k#1, 8)"


@pytest.mark.parametrize(
    ("count", "details", "advice"),
    [
        (1, ("Window [rank(v#2)], [v#2 ASC]",), "Give the window a PARTITION BY"),
        (2, (SHUFFLE, "Window [rank(v#2)], [k#1], [v#2 ASC]"), "`spark.sql.shuffle.partitions`"),
        (1, ("Exchange SinglePartition",), "such as coalesce(1) or a global limit: 8 tasks"),
        (1, ("Scan parquet [id#1]",), "Lower `spark.sql.files.maxPartitionBytes`"),
        (1, (SHUFFLE,), "Ask for at least 8 partitions: in repartition"),
        (1, (), "Ask for a multiple of 4 partitions, 8 at least"),
    ],
)
def test_how_a_stage_gets_more_tasks(count, details, advice):
    (found,) = too_few(case_of([Made(tasks=times(count, 9_000), details=details)]))
    assert advice in found.advice


@pytest.mark.parametrize(
    ("details", "advice"),
    [
        ((), "add a random part to the key, and combine in two steps"),
        (
            ("SortMergeJoin [k#1], [k#2], Inner",),
            "lower `spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes`",
        ),
        (("HashAggregate(keys=[k#1], functions=[sum(v#2)])",), "first by the key and a random"),
    ],
)
def test_how_skewed_rows_are_spread(details, advice):
    (found,) = skew(case_of([Made(tasks=uneven(41_000, 400), details=details)]))
    assert advice in found.advice


def test_a_join_without_adaptive_execution():
    details = ("SortMergeJoin [k#1], [k#2], Inner",)
    settings = {"spark.sql.adaptive.enabled": "false"}
    case = case_of([Made(tasks=uneven(41_000, 400), details=details)], settings=settings)
    (found,) = skew(case)
    assert "set `spark.sql.adaptive.enabled` to true and lower" in found.advice


def test_input_that_is_cut_unevenly():
    files = [*times(19, 1_000, input=10 * MIB), Did(ms=41_000, input=400 * MIB)]
    (found,) = skew(case_of([Made(tasks=files)]))
    assert "because it reads 400 MiB instead of 10 MiB" in found.text
    assert "lower `spark.sql.files.maxPartitionBytes`" in found.advice


def test_more_rows_in_as_many_bytes():
    others = times(19, 1_000, read=10 * MIB, rows=1_000)
    (found,) = skew(case_of([Made(tasks=[*others, Did(ms=41_000, read=10 * MIB, rows=90_000)])]))
    assert "because it reads 90,000 rows instead of 1,000" in found.text


def test_the_host_of_originals_is_named_if_most_of_them_ran_there():
    def told(*executors: str) -> str:
        maker = Maker()
        app = maker.made([[Made(tasks=times(8, 1_000))]])
        begun, end = maker.now, maker.now + 9_000
        for index, name in enumerate(executors):
            maker.add(5, index, name, (begun, end), Metrics(run=1), good=False, killed=True)
            maker.add(5, index, "2", (end - 500, end), Metrics(run=490), speculative=True)
        (found,) = speculation(Case(app=app))
        return found.text

    assert "2 of them on executor 1" in told("1", "1", "2")
    assert "on executor" not in told("1", "2")


def test_a_stage_that_one_executor_ran_alone_is_not_compared():
    cluster = Cluster(executors={"1": 4.0, "2": 1.0})
    case = case_of(
        [Made(tasks=times(16, 1_000))], [Made(tasks=times(2, 1_000), name="alone")], cluster=cluster
    )
    assert set(case.table.executor[case.table.part(1)].tolist()) == {0}
    (found,) = slow_executor(case)
    assert "its 4 tasks took 4 s on average, 4.0 times as long" in found.text
    assert all(isfinite(each.value) for each in found.evidence)
