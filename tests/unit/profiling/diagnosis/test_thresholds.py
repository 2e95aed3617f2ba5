"""What is too small, too short or too few to be reported, next to what just suffices. Stages of tasks."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from rechannel.profiling.diagnosis.cached import computed_again
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.idle_cores import too_many_cores
from rechannel.profiling.diagnosis.joins import missed_broadcasts
from rechannel.profiling.diagnosis.memory import garbage, spill
from rechannel.profiling.diagnosis.partitions import too_few, too_many
from rechannel.profiling.diagnosis.skew import skew
from rechannel.profiling.diagnosis.slow_executors import slow_executor
from rechannel.profiling.diagnosis.small_files import small_files
from rechannel.profiling.spark.application import Application
from tests.unit.profiling.diagnosis.applications import (
    MIB,
    START,
    Cluster,
    Did,
    Made,
    Maker,
    scanned,
    times,
    uneven,
)
from tests.unit.profiling.diagnosis.made import application, executor, job, stage, task
from tests.unit.profiling.diagnosis.test_cached import passes, same_stage
from tests.unit.profiling.diagnosis.test_joins import joining


def of(tasks: Sequence[Did], jobs: int = 1, **more) -> Application:
    """An application with a stage of such tasks in each of some jobs."""
    return Maker(**more).made([[Made(tasks=tasks)]] * jobs)


def lasting(app: Application, ms: int) -> Application:
    """The same, but its driver goes on until so many ms from the start."""
    return replace(app, end=START + ms)


def hot(ms: int, rest: int) -> list[Did]:
    """A task with four times as much data, and 19 others."""
    return [*times(19, rest, read=MIB), Did(ms=ms, read=4 * MIB)]


def slow(count: int, of_tasks: int = 40) -> list[Did]:
    """Tasks that take 21 s, among others of 1 s with as much data."""
    return [*times(of_tasks - count, 1_000, read=MIB), *times(count, 21_000, read=MIB)]


def on(executors: int, slower: float = 1.0, cores: int = 2) -> Cluster:
    """Executors, the first of which takes longer."""
    return Cluster(
        executors={str(i): slower if i == 1 else 1.0 for i in range(1, executors + 1)}, cores=cores
    )


def next_to(ms: int) -> Application:
    """A stage of one task of 20 s, and another one that runs at the same time on three more cores."""
    tasks = [
        task(0, 0, 1_000, 21_000),
        *(task(1, i, 1_000, 1_000 + ms, str(1 + i % 2)) for i in range(3)),
    ]
    return application(
        22_000,
        tasks,
        stage(0, 1_000, 21_000),
        stage(1, 1_000, 1_000 + ms, 3),
        job(0, 1_000, 21_000, stages=(0,)),
        job(1, 1_000, 1_000 + ms, stages=(1,)),
        executor("1", 500),
        executor("2", 500),
    )


def hanging(executor: str) -> Application:
    """Tasks that take longer on executor 1, and one that takes longest, with as much data."""
    maker = Maker()
    app, start = maker.made([[Made(tasks=[])]]), START + 2_000
    for i in range(40):
        name, ms = ("1", 1_600) if i % 2 else ("2", 1_000)
        maker.add(7, i, name, (start, start + ms), Did(ms=ms, read=MIB).metrics)
    last = Did(ms=21_000, read=MIB)
    maker.add(7, 40, executor, (start, start + last.ms), last.metrics)
    return app


def attempted(attempt: int) -> Application:
    """An attempt of a stage that runs a single task."""
    return application(
        22_000,
        [task(0, 0, 1_000, 21_000, attempt=attempt)],
        stage(0, 1_000, 21_000, attempt=attempt),
        job(0, 1_000, 21_000, stages=(0,)),
    )


def recomputed(**changes) -> Application:
    """Passes over data that is not in the cache; what is changed of those after the first."""
    app = passes([1, 1, 3])
    stages = {key: replace(one, **changes) if key[0] else one for key, one in app.stages.items()}
    return replace(app, stages=stages)


def joined(*sides: int) -> Application:
    """A join of some stages."""
    app = joining(MIB)
    return replace(app, stages={**app.stages, (2, 0): replace(app.stages[2, 0], parents=sides)})


def in_batches(batch: int | None) -> Application:
    """Executions with the same stage, each of a job; in batches of a stream if they have a number."""
    app = same_stage(["sum", "max", "min"])
    made = [
        job(n, 5_000 * n, 5_000 * n + 4_000, stages=(2 * n, 2 * n + 1), batch=batch)
        for n in range(3)
    ]
    return replace(app, jobs={each.number: each for each in made})


def reading(files: int, size: int) -> Application:
    """Forty tasks of 1 s that read so many files of so many bytes."""
    tasks = [Did(ms=1_000, input=files * size // 40)] * 40
    scans = {"executions": scanned(files, files * size)}
    return Maker(**scans).made([[Made(tasks=tasks, details=("FileScan parquet [id#7]",))]])


PAIRS = {
    "a gain of a second": (skew, of(hot(1_500, 400)), of(hot(3_500, 400))),
    "a gain of 3 % of the run": (skew, lasting(of(hot(9_000, 900)), 300_000), of(hot(9_000, 900))),
    "the excess of one task": (skew, of(hot(440, 10), 40), of(hot(540, 10), 40)),
    "as much data": (skew, of(uneven(21_000, 16, 39)), of(uneven(21_000, 12, 39))),
    "a slow task of a slow executor": (skew, hanging("1"), hanging("2")),
    "later attempts": (too_few, attempted(1), attempted(0)),
    "shuffled rows beside files": (
        small_files,
        of(times(400, 200, input=1_000, read=1_000)),
        of(times(400, 200, input=1_000)),
    ),
    "an application without tasks": (
        too_many_cores,
        lasting(of([], cluster=on(8)), 60_000),
        lasting(of(times(1, 1_000), cluster=on(8)), 60_000),
    ),
    "passes that failed": (computed_again, recomputed(failure="lost"), recomputed(failure="")),
    "stages that were skipped": (computed_again, recomputed(submitted=0), recomputed()),
    "batches of a stream": (computed_again, in_batches(7), in_batches(None)),
    "few slow tasks": (skew, of(slow(3)), of(slow(2))),
    "tasks worth cutting up": (too_few, of(times(1, 450), 20), of(times(1, 550), 20)),
    "another stage": (too_few, next_to(8_000), next_to(1_000)),
    "tiny tasks": (too_many, of(times(1_000, 210, run=10)), of(times(1_000, 190, run=10))),
    "many tasks for each core": (
        too_many,
        of(times(31, 190, run=10), 5),
        of(times(33, 190, run=10), 5),
    ),
    "small files": (small_files, reading(64, 5 * MIB), reading(64, 3 * MIB)),
    "time for opening files": (small_files, reading(1_000, MIB // 2), reading(1_000, MIB // 4)),
    "spilled bytes": (
        spill,
        of(times(8, 9_000, spilled=3 * MIB)),
        of(times(8, 9_000, spilled=5 * MIB)),
    ),
    "garbage": (garbage, of(times(8, 50_000, gc=7_000)), of(times(8, 50_000, gc=8_000))),
    "tasks of an executor": (
        slow_executor,
        of(times(6, 2_000), cluster=on(2, 4.0)),
        of(times(12, 2_000), cluster=on(2, 4.0)),
    ),
    "tasks of an executor in a stage": (
        slow_executor,
        of(times(4, 1_000), 8, cluster=on(2, 4.0, cores=1)),
        of(times(7, 1_000), 8, cluster=on(2, 4.0, cores=1)),
    ),
    "tasks that can be compared": (
        slow_executor,
        of(times(16, 30), 40, cluster=on(2, 4.0)),
        of(times(16, 70), 40, cluster=on(2, 4.0)),
    ),
    "cores": (
        too_many_cores,
        of(times(1, 9_000), cluster=on(3)),
        of(times(1, 9_000), cluster=on(4)),
    ),
    "cores that work": (
        too_many_cores,
        of(times(8, 5_000), 3, cluster=on(8)),
        of(times(4, 5_000), 3, cluster=on(8)),
    ),
    "half the cores": (
        too_many_cores,
        of(times(9, 1_000), 5, cluster=on(8), gap=3_000),
        of(times(9, 100), 5, cluster=on(8), gap=3_000),
    ),
    "partitions that were lost": (computed_again, passes([4, 4, 3]), passes([4, 3, 3])),
    "the cost of a lost cache": (
        computed_again,
        lasting(passes([1, 1, 3]), 1_000_000),
        lasting(passes([1, 1, 3]), 100_000),
    ),
    "the cost of computing again": (
        computed_again,
        lasting(same_stage(["sum", "max", "min"]), 100_000),
        lasting(same_stage(["sum", "max", "min"]), 50_000),
    ),
    "a side that can be broadcast": (
        missed_broadcasts,
        joining(70 * MIB, large=900 * MIB),
        joining(60 * MIB, large=900 * MIB),
    ),
    "a side that is much larger": (missed_broadcasts, joining(60 * MIB), joining(40 * MIB)),
    "three sides": (missed_broadcasts, joined(0, 1, 3), joined(0, 1)),
    "the cost of a shuffle": (
        missed_broadcasts,
        lasting(joining(MIB), 1_000_000),
        lasting(joining(MIB), 100_000),
    ),
}
"""Detector, an application in which it finds nothing, and one in which it finds something."""


@pytest.mark.parametrize(("detect", "below", "above"), PAIRS.values(), ids=PAIRS)
def test_what_is_just_not_reported_and_what_is(
    detect: Callable[[Case], object], below: Application, above: Application
):
    assert list(detect(Case(app=below))) == []
    assert len(list(detect(Case(app=above)))) == 1
