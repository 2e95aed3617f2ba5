"""What is too short or too rare to be reported, next to what just suffices. The driver, failures and streams."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.driver import on_driver
from rechannel.profiling.diagnosis.failures import failures
from rechannel.profiling.spark.application import Application
from tests.unit.profiling.diagnosis.batches import growing, stream
from tests.unit.profiling.diagnosis.made import (
    application,
    batch,
    execution,
    executor,
    job,
    node,
    task,
)
from tests.unit.profiling.diagnosis.test_driver import committing
from tests.unit.profiling.diagnosis.test_failures import fetching

WIDE = node("Project", "Project [a#1, b#2, ... 998 more fields]")


def jobs(gap: int, work: int = 2_000, count: int = 10, name: str = "made") -> Application:
    """Jobs with some time between them. The first begins 3 s after the start."""
    starts = [3_000 + number * (work + gap) for number in range(count)]
    tasks = [task(number, 0, start, start + work) for number, start in enumerate(starts)]
    made = [job(n, start, start + work, stages=(n,)) for n, start in enumerate(starts)]
    return application(starts[-1] + work + 500, tasks, *made, name=name)


def one_job(before: int, after: int) -> Application:
    """A job of 10 s, and the time before and after it."""
    end = before + 10_000
    only = job(0, before, end, stages=(0,))
    return application(end + after, [task(0, 0, before, end)], only)


def built(pause: int) -> Application:
    """An application that builds a wide plan for 6 s, and runs a job before it uses the plan."""
    begin = 18_000 + pause
    return application(
        begin + 11_000,
        [task(0, 0, 2_000, 12_000), task(2, 0, begin + 500, begin + 10_500)],
        job(0, 2_000, 12_000, stages=(0,)),
        *([job(1, 18_000, begin)] if pause else []),
        execution(1, begin, begin + 10_500, plan=WIDE),
        job(2, begin + 500, begin + 10_500, execution=1, stages=(2,)),
    )


def first_planned(ms: int, **more) -> Application:
    """An application whose first execution is planned for some time."""
    begin = 2_000 + ms
    return application(
        begin + 11_000,
        [task(0, 0, begin, begin + 10_000)],
        execution(0, 2_000, begin + 10_000, **more),
        job(0, begin, begin + 10_000, execution=0, stages=(0,)),
    )


def listing(ms: int) -> Application:
    """Eight executions for which the driver lists files."""
    scan = node("Scan parquet", metrics={"metadata time": 5})
    things, tasks = [], []
    for number in range(8):
        start = 2_000 + number * (2_000 + ms)
        begin, end = start + ms, start + ms + 2_000
        things += [
            execution(number, start, end, plan=scan, metrics={5: ms}),
            job(number, begin, end, execution=number, stages=(number,)),
        ]
        tasks.append(task(number, 0, begin, end))
    return application(end + 500, tasks, *things)


def late(added: int, pause: int = 0) -> Application:
    """A job during which a second executor comes, and that computes nothing for some time before."""
    tasks = [
        *(task(0, i, 2_000, 10_000) for i in range(2)),
        *(task(0, i, 10_000 + pause, 42_000) for i in (2, 3)),
    ]
    executors = executor("1", 1_000), executor("2", added)
    return application(43_000, tasks, *executors, job(0, 2_000, 42_000, stages=(0,)))


def lost(removed: int, at: int = 0) -> Application:
    """A stage that cannot fetch 3.6 s after `at`, and an executor that is lost. The log begins at `at`."""
    executors = executor("1", 500), executor("2", 500, removed=removed, lost=True)
    app = fetching(*executors, at=at)
    return replace(app, start=app.start + at)


def larger(factor: float, busy: float = 1.0) -> Application:
    """Batches that become larger, with twice as many rows a second as are processed.

    busy: share of the last batch in which its tasks run.
    """
    things, tasks, at, lasts = [executor("driver", 0)], [], 1_000, 1_000.0
    for number in range(5):
        end = at + round(lasts)
        rates = {"input_rate": 2_000, "process_rate": 1_000}
        things.append(batch(number, at, end, rows=round(lasts), **rates))
        share = busy if number == 4 else 1
        tasks.append(task(number, 0, at + 50, at + round(lasts * share), "driver"))
        at, lasts = end, lasts * factor
    return application(at, tasks, *things)


def one_large(ms: int, count: int = 14) -> Application:
    """Batches of 1 s, but one that takes longer and has as many more rows."""
    things, at = [executor("driver", 0)], 1_000
    for number in range(count):
        lasts = ms if number == 7 else 1_000
        things.append(batch(number, at, at + lasts, rows=lasts))
        at += lasts
    return application(at, [task(0, 0, 1_000, at, "driver")], *things)


def some_hot(every: int) -> Application:
    """A stream in which one batch of several has a long task with many rows."""

    def tasks(number: int):
        if number % every:
            return [task(number, i, 0, 3_500, "driver", rows=1_000) for i in range(4)]
        sizes = [7_000, 1_000, 1_000, 1_000]
        return [
            task(number, i, 0, 3_500 if i == 0 else 500, "driver", rows=size)
            for i, size in enumerate(sizes)
        ]

    return stream(tasks=tasks)


def warm(number: int):
    """One task of four has more rows, and takes longer."""
    sizes = [3_000, 1_000, 1_000, 1_000]
    times = [3_500 if number % 2 else 2_400, *([3_500 if number % 2 else 1_000] * 3)]
    return [
        task(number, i, 0, ms, "driver", rows=1_000 if number % 2 else size)
        for i, (ms, size) in enumerate(zip(times, sizes, strict=True))
    ]


PAIRS = {
    "stretches of a second": ("driver-program", jobs(900), jobs(1_100)),
    "a gain of a second": ("commit", committing(1_900), committing(2_600)),
    "before the first job": ("driver-program", one_job(30_000, 500), one_job(40_000, 500)),
    "after the last job": ("driver-program", one_job(3_000, 5_900), one_job(3_000, 9_000)),
    "idle for a share of the session": (
        "idle",
        jobs(30_000, 100_000, 2, "PySparkShell"),
        jobs(30_000, 20_000, 2, "PySparkShell"),
    ),
    "idle for some seconds": (
        "idle",
        stream(work=200, every=1_200, batches=5),
        stream(work=200, every=2_500, batches=5),
    ),
    "a plan that was built right before": ("planning", built(200), built(0)),
    "the first plan, if it is wide": (
        "planning",
        first_planned(3_400, plan=WIDE),
        first_planned(5_000, plan=WIDE),
    ),
    "the first plan": ("planning", first_planned(30_500), first_planned(40_000)),
    "listing of an execution": ("file-listing", listing(900), listing(1_100)),
    "late executors": ("late-executors", late(6_900), late(12_000)),
    "cores that could have been used": (
        "late-executors",
        late(32_000, pause=15_000),
        late(32_000, pause=2_000),
    ),
    "a small share of slow time in the sink": (
        "slow-sink",
        stream(work=9_000, after=1_000),
        stream(work=2_000, after=1_500),
    ),
    "few batches of a stream": (
        "small-batches",
        stream(work=300, before=500, batches=4),
        stream(work=300, before=500, batches=5),
    ),
    "skew that costs little": ("stream-skew", stream(tasks=warm), some_hot(2)),
    "batches with skew": ("stream-skew", some_hot(3), some_hot(2)),
    "batches that become larger": ("rate-above-capacity", larger(1.2), larger(1.4)),
    "batches without tasks": ("rate-above-capacity", larger(2.0, 0.5), larger(2.0, 0.7)),
    "a batch that is larger": ("uneven-batches", one_large(4_000), one_large(6_000)),
    "batches to compare": ("uneven-batches", one_large(9_000, 10), one_large(9_000, 11)),
    "batches in which state grows": (
        "watermark",
        stream(work=4_500, tasks=growing, state_rows=lambda n: 1_000 * (n + 1), batches=5),
        stream(work=4_500, tasks=growing, state_rows=lambda n: 1_000 * (n + 1), batches=6),
    ),
    "late rows": (
        "late-rows",
        stream(late_rows=lambda n: 6 if n == 4 else 0),
        stream(late_rows=lambda n: 9 if n == 4 else 0),
    ),
}
"""Cause, an application in which it is not found, and one in which it is."""


@pytest.mark.parametrize(("cause", "below", "above"), PAIRS.values(), ids=PAIRS)
def test_what_is_just_not_reported_and_what_is(cause: str, below: Application, above: Application):
    assert cause not in causes(on_driver, below)
    assert cause in causes(on_driver, above)


@pytest.mark.parametrize(
    ("removed", "at", "cause"),
    [
        pytest.param(4_500, 0, "lost-executor", id="the loss becomes known a little later"),
        pytest.param(7_000, 0, "fetch-failure", id="lost after the failure"),
        pytest.param(50_000, 290_000, "lost-executor", id="minutes before"),
        pytest.param(50_000, 390_000, "fetch-failure", id="too long before"),
    ],
)
def test_when_the_loss_of_an_executor_explains_that_files_are_gone(
    removed: int, at: int, cause: str
):
    found = [each.cause for each in failures(Case(app=lost(removed, at))) if each.gain]
    assert found == [cause]


def causes(detect: Callable[[Case], object], app: Application) -> set[str]:
    return {each.cause for each in detect(Case(app=app))}
