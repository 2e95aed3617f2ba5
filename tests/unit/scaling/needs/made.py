"""A stream whose tasks take a fixed time and a time for each row, as its telemetry would have it."""

from __future__ import annotations

from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.sources.backlog import Backlog
from rechannel.telemetry.events import Event, JobStarted, TimestepCommitted, TimestepStarted
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.progress import fold
from rechannel.telemetry.recent_tasks import TimestepTasks, recent_tasks
from rechannel.telemetry.task_finished import Sent, SparkMetrics, TaskFinished

FIXED_MS, ROW_MS, READ_MS, LAUNCH_MS, DRIVER_MS = 20, 2, 50, 4, 30
ROWS = (100, 160, 120, 200)
"""Rows of a timestep, in turn: 145 in the mean."""
INTERVAL_MS = 1_000
TASKS = 2


def events(timesteps: int = 12, *, backlog: int = 0) -> list[Event]:
    """One timestep per second: as many rows reach each of two tasks of "counts" as one task of "in" has read."""
    out: list[Event] = [JobStarted(job="shop", at_ms=0, engine="spark", timestep=1)]
    for number in range(1, timesteps + 1):
        at, rows = number * INTERVAL_MS, ROWS[number % len(ROWS)]
        sent = (Sent(operator="counts", input=0, offered=rows, rows=rows, keys=9, bytes=1),)
        reads = TaskFinished(
            timestep=number, operator="in", task=0, attempt="a", host="h",
            started_ms=at, finished_ms=at + READ_MS, rows_in=rows, sent=sent, spark=_spark(at, READ_MS, 1, 0),
        )  # fmt: skip
        begin = at + READ_MS
        counts: list[Event] = []
        for task in range(TASKS):
            took, launched = FIXED_MS + ROW_MS * rows // TASKS, begin + LAUNCH_MS * task
            counts.append(TaskFinished(
                timestep=number, operator="counts", task=task, attempt="a", host="h", rows_in=rows // TASKS,
                started_ms=launched, finished_ms=launched + took, spark=_spark(launched, took, 2, task),
            ))  # fmt: skip
        took = READ_MS + LAUNCH_MS + FIXED_MS + ROW_MS * rows // TASKS + DRIVER_MS
        out += [
            TimestepStarted(
                timestep=number, now_ms=at, at_ms=at, offsets={"in": {}}, configuration=1,
                backlog={"in": Backlog(rows=backlog)},
            ),
            reads,
            *counts,
            TimestepCommitted(timestep=number, at_ms=at + took, duration_ms=float(took)),
        ]  # fmt: skip
    return out


def _spark(launched: int, took: int, stage: int, task: int) -> SparkMetrics:
    return SparkMetrics(
        stage=stage, partition=task, executor="1", host="h",
        launch_ms=launched, finish_ms=launched + took,
    )  # fmt: skip


def configuration() -> Configuration:
    operators = {
        "in": OperatorConfiguration(tasks=1),
        "counts": OperatorConfiguration(tasks=TASKS),
    }
    return Configuration(version=1, operators=operators, interval_ms=INTERVAL_MS)


def measured(
    timesteps: int = 12, *, backlog: int = 0
) -> tuple[list[TimestepProgress], tuple[TimestepTasks, ...]]:
    """Progress and tasks of the stream."""
    made = events(timesteps, backlog=backlog)
    return fold(made).recent_progress, recent_tasks(made)
