"""Findings about data that is computed again, on applications made of values."""

import pytest

from rechannel.profiling.diagnosis.cached import computed_again
from rechannel.profiling.spark.application import Stored
from tests.unit.profiling.diagnosis.made import application, executor, found, stage, task

KEPT = (Stored(rdd=7, name="orders", partitions=4),)


def passes(hits, **more):
    """Four partitions that take 2 s to compute, and three passes that find some of them, one after the other."""
    tasks, stages = [], []
    for number, known in enumerate([0, *hits]):
        start = 10_000 * number
        at = start
        for index in range(4):
            took = 200 if index < known else 2_000
            tasks.append(task(number, index, at, at + took, input=5_000 * (index < known)))
            at += took
        stages.append(stage(number, start, at, 4, stored=KEPT))
    return application(40_000, tasks, *stages, **more)


def test_partitions_that_are_not_in_the_cache():
    finding = found(computed_again, passes([1, 1, 3]))["cache-lost"]
    assert finding.seconds == pytest.approx(7 * 1.8)
    assert "58 % of the partitions that 3 later stages needed" in finding.text
    assert "3 of 4 in stage 1 alone" in finding.text
    assert "StorageLevel.MEMORY_AND_DISK" in finding.advice


def test_a_cache_that_holds_everything():
    assert found(computed_again, passes([4, 4, 4])) == {}


def test_a_cache_that_was_lost_with_an_executor():
    executors = {"1": executor("1", 0, removed=5_000, lost=True)}
    finding = found(computed_again, passes([0, 4, 4], executors=executors))["cache-lost"]
    assert "Executor 1 was lost" in finding.advice


def same_stage(plans, **more):
    """A stage of 3 s in several executions, each with another stage."""
    stages = []
    for number, plan in enumerate(plans):
        start = 5_000 * number
        kept = ("Scan parquet orders", "Exchange hashpartitioning(day#1)")
        stages += [
            stage(
                2 * number,
                start,
                start + 3_000,
                execution=number,
                nodes=("Scan", "Exchange"),
                details=kept,
                **more,
            ),
            stage(
                2 * number + 1,
                start + 3_000,
                start + 4_000,
                execution=number,
                nodes=("Aggregate",),
                details=(plan,),
            ),
        ]
    return application(5_000 * len(plans), [], *stages)


def test_a_stage_that_different_queries_compute():
    finding = found(computed_again, same_stage(["sum", "max", "min"]))["recomputed-stages"]
    assert finding.seconds == pytest.approx(6)
    assert finding.certainty == "possible"
    # The same query three times is a loop, or a benchmark.
    assert found(computed_again, same_stage(["sum", "sum", "sum"])) == {}
    assert found(computed_again, same_stage(["sum", "max"])) == {}
    assert found(computed_again, same_stage(["sum", "max", "min"], stored=KEPT)) == {}
