"""Makes an event of a task's report and Spark's figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rechannel.kernels.tasks.report import TaskReport
from rechannel.kernels.tasks.report_table import ReportTable
from rechannel.kernels.tasks.unit_report import ReportList, UnitReport
from rechannel.state.manifest import Edit
from rechannel.telemetry.bundles import shared_out
from rechannel.telemetry.events import Event
from rechannel.telemetry.task_finished import (
    NAMED_COUNTS,
    JudgedRows,
    Kept,
    SegmentWritten,
    Sent,
    SparkMetrics,
    SparkTaskId,
    TaskFinished,
)
from rechannel.telemetry.tasks_finished import TasksFinished


def finished(report: UnitReport) -> list[TaskFinished] | list[TasksFinished]:
    """Return the events of the tasks of a unit. Spark's figures are found later, by `spark_tasks`."""
    if isinstance(report, ReportTable):
        return [
            TasksFinished(
                timestep=report.timestep,
                operator=report.operator,
                number=report.tasks,
                figures=report.tasks_done,
            )
        ]
    assert isinstance(report, ReportList)  # noqa: S101 - there are two forms
    return [task_finished(each) for each in report.reports]


def task_finished(report: TaskReport) -> TaskFinished:
    """Return the event of one task. Spark's figures are found later, by `spark_task`."""
    costs, counts, spark = report.costs, report.costs.counts, report.spark
    sent = tuple(
        Sent(
            operator=one.operator,
            input=one.input,
            offered=one.offered,
            rows=one.rows,
            keys=one.keys,
            bytes=one.bytes,
        )
        for one in report.emitted.sent
    )
    kept = tuple(
        Kept(node=node, rows=file.rows, bytes=file.bytes)
        for node, file in report.emitted.buffered.items()
    )
    judged = tuple(
        JudgedRows(node=node, rows=one.rows, bad=one.bad, failed=one.failed)
        for node, one in report.emitted.judged.items()
    )
    rows_in = counts.get("rows_in", 0)
    return TaskFinished(
        timestep=report.timestep,
        operator=report.operator,
        task=report.task,
        attempt=report.attempt,
        host=costs.host,
        pid=costs.pid,
        started_ms=costs.started_ms,
        finished_ms=costs.finished_ms,
        cpu_ms=costs.cpu_ms,
        ms=costs.ms,
        counts={name: n for name, n in counts.items() if name not in NAMED_COUNTS},
        rows_in=rows_in,
        # A source task makes no rows of its own: functions and consumers are downstream of it.
        rows_out=counts.get("rows_out", rows_in),
        bytes_in=counts.get("bytes_in", 0),
        bytes_out=sum(one.bytes for one in sent) + sum(one.bytes for one in kept),
        keys=counts.get("keys", 0),
        keys_found=counts.get("keys_found", 0),
        runs=counts.get("runs", 0),
        rows_merged=counts.get("rows_merged", 0),
        bytes_fetched=counts.get("bytes_fetched", 0),
        bins=None if report.state is None else report.state.bins,
        segments=() if report.state is None else _segments(report.state.edit),
        sent=sent,
        kept=kept,
        judged=judged,
        spark_task=None if spark is None else SparkTaskId(stage=spark.stage, task=spark.task),
    )


def stages_wanted(events: Iterable[Event]) -> dict[int, set[int]]:
    """Return the tasks whose figures are missing: ids of tasks by stage id."""
    wanted: dict[int, set[int]] = {}
    for event in events:
        if isinstance(event, TaskFinished) and event.spark is None and event.spark_task:
            wanted.setdefault(event.spark_task.stage, set()).add(event.spark_task.task)
        elif isinstance(event, TasksFinished):
            for stage, tasks in event.spark_tasks.items():
                wanted.setdefault(stage, set()).update(tasks)
    return wanted


def join(events: Sequence[Event], measured: Mapping[int, SparkMetrics]) -> list[Event]:
    """Return the same events in the same order, with Spark's figures for the tasks in `measured`.

    measured: by `SparkTaskId.task`. Tasks that share one of Spark's get a share of its figures.
    """
    out = list(events)
    places: dict[int, list[int]] = {}
    for place, event in enumerate(events):
        if isinstance(event, TasksFinished):
            out[place] = event if event.spark else event.measured(measured)
        elif isinstance(event, TaskFinished) and event.spark is None and event.spark_task:
            places.setdefault(event.spark_task.task, []).append(place)
    for task, bundle in places.items():
        if task not in measured:
            continue
        known = [event for place in bundle if isinstance(event := events[place], TaskFinished)]
        shares = shared_out(measured[task], [(each.started_ms, each.finished_ms) for each in known])
        for place, event, share in zip(bundle, known, shares, strict=True):
            out[place] = event.measured(share)
    return out


def _segments(edit: Edit) -> tuple[SegmentWritten, ...]:
    return tuple(
        SegmentWritten(key=run.segment, level=run.level, rows=run.rows, bytes=run.size)
        for run in edit.add
    )
