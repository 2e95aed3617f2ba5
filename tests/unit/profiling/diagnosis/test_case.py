"""Cases: the replay of whole applications, and what changes gain."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from rechannel.profiling.diagnosis import task_table
from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.change import Change
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.task_events import Metrics
from tests.unit.profiling.diagnosis.applications import (
    START,
    Did,
    Made,
    Maker,
    case_of,
    made,
    times,
)


def replayed(case: Case) -> np.ndarray:
    return case.unchanged(np.arange(len(case.observed.groups)))


def test_the_unchanged_application_takes_what_it_took():
    case = case_of(
        [Made(tasks=[Did(ms=100 * i % 700 + 50) for i in range(20)]), Made(tasks=times(9, 400))],
        [Made(tasks=times(3, 1_000)), Made(tasks=times(2, 30)), Made(tasks=[])],
    )
    took = case.observed.groups[:, 1] - case.observed.groups[:, 0]
    np.testing.assert_array_equal(replayed(case), took)
    assert case.gain(Change()) == (0, 0)
    every = {key: case.durations(key) for key in case.table.stages}
    assert case.gain(Change(durations=every)) == (0, 0)


def test_gains_of_other_tasks_are_seconds_and_shares_of_the_run():
    case = case_of([Made(tasks=times(4, 1_000)), Made(tasks=[Did(ms=9_000), *times(3, 1_000)])])
    # 1 s before the job, 0.1 s after it.
    assert case.length == 1 + 1 + 9 + 0.1
    gain = case.gain(Change(durations={(1, 0): np.full(4, 3_000)}))
    assert gain.seconds == pytest.approx(6)
    assert gain.share == pytest.approx(6 / 11.1)
    assert case.gain(Change(durations={(1, 0): np.full(8, 1_500)})).seconds == pytest.approx(6)
    assert case.gain(Change(durations={(1, 0): np.empty(0)})).seconds == pytest.approx(9)
    assert case.gain(Change(durations={(0, 0): np.full(4, 2_000)})).seconds == pytest.approx(-1)


def test_other_cores():
    case = case_of([Made(tasks=times(8, 1_000)), Made(tasks=[Did(ms=3_000), Did(ms=1_000)])])
    assert case.cores == 4
    rest = case.length - 2 - 3
    assert case.with_cores(2.0) == pytest.approx(rest + 1 + 3)
    assert case.with_cores(0.5) == pytest.approx(rest + 4 + 3)
    assert case.with_cores(inf) == pytest.approx(rest + 1 + 3)


def test_a_run_has_one_length_for_all_findings():
    jobs, gap = [[Made(tasks=times(4, 500))] for _ in range(5)], 20_000
    batches = case_of(*jobs, gap=gap, streaming=True)
    script = case_of(*jobs, gap=gap)
    shell = Case(app=replace(Maker(gap=gap).made(jobs), name="PySparkShell"))
    bare = Case(app=Application(name="bare", tasks=script.app.tasks, end=script.app.end))
    # A stream that waits for input is running; a shell that waits for its user is not.
    assert batches.run_ms == script.run_ms == 1_000 + 5 * 20_500
    assert shell.run_ms == 1_000 + 5 * 500
    assert bare.run_ms == script.app.end - script.app.jobs[0].start
    for case in (batches, script, shell, bare):
        assert DriverTime.of(case).length == case.run_ms == 1_000 * case.length
        assert case.core_ms == case.cores * case.run_ms


def test_jobs_that_overlap_are_one_group_and_share_the_cores():
    maker = Maker()
    app = maker.made([[Made(tasks=times(4, 1_000))], [Made(tasks=times(4, 1_000))]])
    first, second = app.jobs.values()
    assert len(Case(app=app).observed.groups) == 2
    begun = first.start + 10
    together = replace(
        app,
        jobs={0: first, 1: replace(second, start=begun)},
        stages={**app.stages, (1, 0): replace(app.stages[1, 0], submitted=begun)},
    )
    case = Case(app=together)
    assert len(case.observed.groups) == 1
    assert replayed(case)[0] == pytest.approx(second.end - first.start, rel=0.1)
    assert case.gain(Change(cores=2.0)).seconds == pytest.approx(1, rel=0.1)


def test_executors_that_come_late():
    maker = Maker()
    maker.now += 5_000
    app = maker.made([[Made(tasks=times(8, 1_000))]])
    job, stage = app.jobs[0], app.stages[0, 0]
    begun = job.start - 5_000
    late = replace(
        app,
        jobs={0: replace(job, start=begun)},
        stages={(0, 0): replace(stage, submitted=begun)},
        executors={k: replace(e, added=job.start) for k, e in app.executors.items()},
    )
    case = Case(app=late)
    assert replayed(case).tolist() == [7_000]
    # The first 5 s pass without a core.
    assert case.gain(Change(cores=2.0)).seconds == pytest.approx(1)


def test_retries_and_copies_do_not_begin_early():
    maker = Maker()
    app = maker.made([[Made(tasks=times(2, 1_000))]])
    maker.add(0, 5, "1", (START + 1_000, START + 2_000), Metrics(run=900), good=False)
    maker.add(0, 5, "1", (START + 2_100, START + 4_000), Metrics(run=900))
    maker.add(0, 6, "2", (START + 1_000, START + 9_000), Metrics(run=900), good=False, killed=True)
    maker.add(0, 6, "1", (START + 4_000, START + 5_000), Metrics(run=900), speculative=True)
    case = Case(app=replace(app, jobs={0: replace(app.jobs[0], end=START + 5_000)}))
    assert replayed(case).tolist() == [4_000]
    assert case.gain(Change(cores=inf)).seconds == 0


def test_tasks_without_jobs_stages_or_executors_are_replayed_too():
    maker = Maker()
    app = maker.made([[Made(tasks=times(8, 1_000))]])
    bare = Application(name="bare", tasks=app.tasks, end=app.end)
    case = Case(app=bare)
    assert case.cores == 4
    assert replayed(case).tolist() == [2_000]
    nothing = Case(app=Application(name="nothing"))
    assert nothing.gain(Change(cores=2.0)) == (0, 0)
    assert nothing.families == []


def test_columns_in_files_are_the_same(monkeypatch):
    app = made([Made(tasks=[Did(ms=100 * i % 700 + 50) for i in range(50)])])
    whole = Case(app=app).table
    monkeypatch.setattr(task_table, "HELD", 10)
    filed = Case(app=app).table
    for name in ("launch", "durations", "amount", "executor", "flags"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(filed, name))
