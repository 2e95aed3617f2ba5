"""From the report of a task, and Spark's figures for it, to an event. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rechannel.model.codec import decode
from rechannel.state.manifest import Run
from rechannel.telemetry.events import Event
from rechannel.telemetry.task_finished import (
    Kept,
    SegmentWritten,
    Sent,
    SparkMetrics,
    SparkTaskId,
    TaskFinished,
)

_NAMED_COUNTS = (
    "rows_in",
    "rows_out",
    "bytes_in",
    "keys",
    "keys_found",
    "runs",
    "rows_merged",
    "bytes_fetched",
)


def task_finished(report: Mapping[str, Any]) -> TaskFinished:
    """The event of one task.

    report: what `kernels.measure.decode_report` returns. Its member `spark`, where there is one, is
    `{"stage": TaskContext.stageId(), "task": TaskContext.taskAttemptId()}`: by it Spark's figures
    are found later. Raises KeyError for what is not a report.
    """
    counts: dict[str, int] = report["counts"]
    sent = tuple(_sent(item) for item in report["sent"])
    kept = tuple(
        Kept(node=node, rows=file["rows"], bytes=file["size"])
        for node, file in report["outbox"].items()
    )
    rows_in = counts.get("rows_in", 0)
    spark = report.get("spark")
    return TaskFinished(
        timestep=report["timestep"],
        operator=report["operator"],
        task=report["task"],
        attempt=report["attempt"],
        host=report["host"],
        pid=report["pid"],
        started_ms=report["started_ms"],
        finished_ms=report["finished_ms"],
        cpu_ms=report["cpu_ms"],
        ms=report["ms"],
        counts={name: n for name, n in counts.items() if name not in _NAMED_COUNTS},
        rows_in=rows_in,
        # The rows of a front are those it reads: functions and consumers stand behind them.
        rows_out=counts.get("rows_out", rows_in),
        bytes_in=counts.get("bytes_in", 0),
        bytes_out=sum(item.bytes for item in sent) + sum(item.bytes for item in kept),
        keys=counts.get("keys", 0),
        keys_found=counts.get("keys_found", 0),
        runs=counts.get("runs", 0),
        rows_merged=counts.get("rows_merged", 0),
        bytes_fetched=counts.get("bytes_fetched", 0),
        bins=report.get("bins"),
        segments=_segments(report.get("edit")),
        sent=sent,
        kept=kept,
        spark_task=None if spark is None else SparkTaskId(**spark),
    )


def stages_wanted(events: Iterable[Event]) -> dict[int, set[int]]:
    """Stages whose figures are missing: by stage id, the ids of its tasks."""
    wanted: dict[int, set[int]] = {}
    for event in events:
        if isinstance(event, TaskFinished) and event.spark is None and event.spark_task:
            wanted.setdefault(event.spark_task.stage, set()).add(event.spark_task.task)
    return wanted


def join(events: Sequence[Event], measured: Mapping[int, SparkMetrics]) -> list[Event]:
    """The same events in the same order; tasks have Spark's figures where `measured` has them.

    measured: by `SparkTaskId.task`.
    """
    return [_joined(event, measured) for event in events]


def _joined(event: Event, measured: Mapping[int, SparkMetrics]) -> Event:
    if not isinstance(event, TaskFinished) or event.spark is not None or not event.spark_task:
        return event
    found = measured.get(event.spark_task.task)
    return event if found is None else event.measured(found)


def _sent(item: Sequence[Any]) -> Sent:
    operator, into, offered, rows, keys, size = item
    return Sent(operator=operator, input=into, offered=offered, rows=rows, keys=keys, bytes=size)


def _segments(edit: Mapping[str, Any] | None) -> tuple[SegmentWritten, ...]:
    runs = (decode(Run, run) for run in (edit["add"] if edit else ()))
    return tuple(
        SegmentWritten(key=run.segment, level=run.level, rows=run.rows, bytes=run.size)
        for run in runs
    )
