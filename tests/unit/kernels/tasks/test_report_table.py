"""Reports of many tasks, as columns and as they are: both say the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from rechannel.engine.spark.reporting import folded_of
from rechannel.exporting.timestep_spans import OpenTimestep, committed_spans
from rechannel.kernels.shuffle.wire import DATA, Blob, batch_of, pack
from rechannel.kernels.tasks.report import (
    BufferFile,
    ControlReport,
    Emitted,
    HotKey,
    Judged,
    Sent,
    SparkTask,
    StateReport,
    TaskCosts,
    TaskReport,
)
from rechannel.kernels.tasks.report_table import ReportTable, fold
from rechannel.kernels.tasks.unit_report import ReportList, by_operator
from rechannel.model.eventtime import Times
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.run import Run
from rechannel.telemetry.build import finished, join, stages_wanted
from rechannel.telemetry.events import (
    TimestepCommitted,
    TimestepStarted,
    event_from_json,
    event_to_json,
)
from rechannel.telemetry.progress import Progress
from rechannel.telemetry.recent_events import RecentEvents
from rechannel.telemetry.recent_tasks import at_once, columns_of
from rechannel.telemetry.task_finished import SparkMetrics, TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished
from rechannel.telemetry.totals import Totals

TASKS = 70


def run(task: int, seq: int, level: int = 0) -> Run:
    clip = Intervals(((task * SPACE // TASKS, (task + 1) * SPACE // TASKS),))
    return Run(
        segment=f"segments/{task}/{seq}",
        clip=clip,
        seq=seq,
        level=level,
        rows=10 + task,
        size=100,
        span=clip.width,
        due=(task, 2**63 - 1) if task % 3 else None,
        digest=f"d{task}" if task % 2 else None,
    )


def report(task: int, rng: random.Random, *, state: bool = True) -> TaskReport:
    """A report of everything that there can be, here and there."""
    some = rng.random() < 0.5
    edit = Edit(
        retire=(((3, 2), run(task, 3).clip),) if some else (),
        add=(run(task, 4), *((run(task, 3, 1),) if some else ())),
    )
    counts = {"rows_in": rng.randrange(99), "bytes_in": 5, "spilled": task}
    ms = {"wait": rng.random(), "process": rng.random(), **({"merge": 1.5} if some else {})}
    began = 1e12 + rng.randrange(1_000) + 0.125
    return TaskReport(
        operator="totals",
        timestep=4,
        task=task,
        attempt=f"attempt{task}",
        spark=SparkTask(stage=7, task=1_000 + task),
        costs=TaskCosts(
            host=f"host{task % 3}",
            pid=task,
            started_ms=began,
            finished_ms=began + 1 + rng.randrange(9),
            cpu_ms=0.5,
            ms=ms,
            counts=counts if some else {**counts, "rows_out": 4, "keys": 2},
        ),
        emitted=Emitted(
            sent=(
                Sent(operator="next", input=0, offered=9, rows=8, keys=7, bytes=6),
                *((Sent(operator="other", input=1, offered=1, rows=1, keys=1, bytes=1),) * some),
            ),
            buffered={"kept": BufferFile(key=f"k{task}", rows=3, bytes=9)} if some else {},
            event_times={"in": rng.randrange(100)},
            judged={"check": Judged(rows=9, bad=1, example="é", failed={"positive": 1})}
            if some
            else {},
        ),
        state=StateReport(
            edit=edit,
            times=Times(watermark=9),
            bins=f"bins{task}" if some else None,
            hot_keys=(HotKey(hash=task, rows=5),) if task % 9 == 0 else (),
            first_timers={"a": task, f"b{task % 2}": 50 - task},
            first_processing={"c": 7},
        )
        if state
        else None,
        controls=(ControlReport(operation="op", replies={"totals": task}),) if task == 3 else (),
    )


@pytest.fixture(params=[True, False], ids=["with state", "without"])
def reports(request: pytest.FixtureRequest) -> list[TaskReport]:
    rng = random.Random(5)
    return [report(task, rng, state=request.param) for task in range(TASKS)]


def folded(reports: list[TaskReport]) -> list[ReportTable]:
    """What the driver has of reports, in the order in which they happened to arrive."""
    shuffled = random.Random(1).sample(reports, len(reports))
    blobs = [each.blob() for each in shuffled]
    made = fold([batch_of([0] * len(blobs[:9]), blobs[:9]), batch_of([0] * 61, blobs[9:])])
    return folded_of(blob.as_py() for batch in made for blob in batch.column(1))


def test_the_driver_learns_the_same_of_both(reports):
    (many,) = folded(reports)
    few = ReportList(tuple(reports))
    for name in ("operator", "timestep", "tasks", "rows_in", "times", "event_times", "sent"):
        assert getattr(many, name) == getattr(few, name), name
    for name in ("first_timers", "first_processing", "judged"):
        assert getattr(many, name) == getattr(few, name), name
    for name in ("bins", "hot_keys", "controls", "buffered"):
        assert getattr(many, name) == getattr(few, name), name
    before = Manifest((*(run(task, 3) for task in range(TASKS)), run(0, 2), run(1, 2)))
    assert set(before.apply(many.edit).runs) == set(before.apply(few.edit).runs)
    assert [r.seq for r in before.apply(many.edit).runs] == [
        r.seq for r in before.apply(few.edit).runs
    ]


def test_what_many_tasks_merge_alike_is_retired_as_one(reports):
    (many,) = folded(reports)
    seqs = {seqs for seqs, _ in ReportList(tuple(reports)).edit.retire}
    assert len(many.edit.retire) == len(seqs)


def test_operators_whose_reports_come_together_are_told_apart():
    rng = random.Random(2)
    reports = [replace(report(task, rng), operator=f"o{task % 2}") for task in range(10)]
    assert [(each.operator, each.tasks) for each in by_operator(reports)] == [("o0", 5), ("o1", 5)]
    blobs = [each.blob() for each in reports]
    blobs += [replace(report(9, rng), operator="alone").blob()]
    made = fold([batch_of([0] * 11, blobs)], many=5)
    found = folded_of(blob.as_py() for batch in made for blob in batch.column(1))
    assert [(each.operator, each.tasks) for each in found] == [("alone", 1), ("o0", 5), ("o1", 5)]
    assert [type(each) for each in found] == [ReportList, ReportTable, ReportTable]


def test_only_reports_are_folded():
    blob = Blob(
        kind=DATA,
        input=0,
        producer=0,
        sequence=0,
        combined=False,
        rows=0,
        message=pa.py_buffer(b"x"),
    )
    with pytest.raises(ValueError, match="a blob of kind 1 is among reports"):
        list(fold([batch_of([0], [pack(blob)])]))


# Telemetry -----------------------------------------------------------------------------------------


def measured(task: int) -> SparkMetrics:
    return SparkMetrics(
        stage=7,
        partition=task,
        executor=f"e{task % 4}",
        host="h",
        launch_ms=10**12 + task,
        finish_ms=10**12 + 100 + task,
        run_ms=20.5,
        deserialise_ms=2.0,
    )


@pytest.mark.parametrize("known", [0, 50, TASKS], ids=["no figures", "some", "all"])
def test_telemetry_says_the_same_of_both(reports, known):
    (event,) = finished(folded(reports)[0])
    tasks = finished(ReportList(tuple(reports)))
    assert isinstance(event, TasksFinished)
    assert stages_wanted([event]) == stages_wanted(tasks) == {7: {1_000 + i for i in range(TASKS)}}
    found = {1_000 + task: measured(task) for task in range(known)}
    (event,), tasks = join([event], found), join(tasks, found)
    assert event_from_json(event_to_json(event)) == event
    assert list(event.each()) == tasks
    many, few = columns_of([event]), columns_of(tasks)
    for name in ("numbers", "rows", "busy_ms", "core_ms"):
        assert getattr(many, name).tolist() == pytest.approx(getattr(few, name).tolist()), name
    for name in ("began_ms", "ended_ms", "launch_ms", "sent", "offered", "bins"):
        assert getattr(many, name) == getattr(few, name), name
    assert (many.launch_ms is None) is (known < TASKS)
    assert at_once([event]) == at_once(tasks)
    assert event.executors == {each.executor for each in tasks if each.executor}


def test_sums_are_those_of_single_tasks(reports):
    (event,) = finished(folded(reports)[0])
    tasks = finished(ReportList(tuple(reports)))
    many, few = Totals(), Totals()
    many.see(event)
    few.see(*tasks)
    mine, theirs = many.sums, few.sums
    assert mine.judged == theirs.judged
    here, there = mine.operators["totals"], theirs.operators["totals"]
    assert here.seconds == pytest.approx(there.seconds)
    assert replace(here, seconds={}) == replace(there, seconds={})
    assert event.rows_kept == sum(each.rows_kept for each in tasks)
    assert event.keys == sum(each.keys for each in tasks)
    longest = max(tasks, key=lambda task: task.busy_ms)
    assert event.slowest.busy_ms == longest.busy_ms
    assert event.slowest.task == longest.task


def test_progress_shows_how_many_tasks_there_were(reports):
    (event,) = finished(folded(reports)[0])
    progress = Progress()
    progress.see(event, TimestepCommitted(timestep=4, at_ms=1, duration_ms=1.0))
    last = progress.last_progress
    assert last is not None
    operator = last.operators["totals"]
    assert (operator.tasks, operator.rows_in) == (TASKS, event.rows_in)
    assert operator.slowest_task is not None
    assert operator.slowest_task.task == event.slowest.task


def test_an_event_of_many_tasks_takes_the_room_of_many(reports):
    (event,) = finished(folded(reports)[0])
    kept = RecentEvents(events=TASKS // 10 + 2)
    for timestep in range(1, 6):
        kept.see([event, TimestepCommitted(timestep=timestep, at_ms=1, duration_ms=1.0)])
    assert [each.timestep for each in kept.recent() if isinstance(each, TimestepCommitted)] == [5]


def test_spans_are_those_of_single_tasks(reports):
    (event,) = finished(folded(reports)[0])
    (event,) = join([event], {1_000 + task: measured(task) for task in range(0, TASKS, 3)})
    receiver = TaskFinished(
        timestep=4,
        operator="next",
        task=0,
        attempt="a",
        host="h",
        started_ms=1e12 + 2_000,
        finished_ms=1e12 + 3_000,
    )
    committed = TimestepCommitted(
        timestep=4, at_ms=10**12 + 9_000, duration_ms=9_000.0, phases={"run": 8_000.0}
    )
    found = []
    for tasks in ([event], list(event.each())):
        timestep = OpenTimestep(started=TimestepStarted(timestep=4, now_ms=0, at_ms=0))
        for each in (*tasks, receiver):
            timestep.see(each)
        found.append(list(committed_spans("job", timestep, committed, 5)))
    many, few = found
    assert len(few) == 2 + 2 + 5 + 1  # the timestep and its phase, operators, five tasks and one
    assert [link.attributes["rechannel.exchange.rows"] for span in many for link in span.links]
    for mine, theirs in zip(many, few, strict=True):
        times = [name for name in theirs.attributes if "task.time" in name]
        assert mine.attributes == {
            **theirs.attributes,
            **{name: pytest.approx(theirs.attributes[name]) for name in times},
        }
        assert replace(mine, attributes={}) == replace(theirs, attributes={})
