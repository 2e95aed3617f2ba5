"""An event as a line for people."""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.cli.screen import count, moment, size
from rechannel.telemetry.events import (
    DecisionMade,
    Event,
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished


def describe(event: Event) -> str:
    """The time and what happened."""
    if isinstance(event, TaskFinished):
        return f"{moment(event.finished_ms)}  {_task(event)}"
    if isinstance(event, TasksFinished):
        return f"{moment(float(event.finish_ms.max()))}  {_tasks(event)}"
    return f"{moment(event.at_ms)}  {_sentence(event)}"


def _sentence(event: Event) -> str:  # noqa: PLR0911 - one line for each kind
    match event:
        case JobStarted():
            return f"job {event.job!r} started ({event.engine})"
        case JobStopped():
            how = "stopped" if event.error is None else f"failed: {_line(event.error)}"
            return f"job {event.job!r} {how}"
        case TimestepStarted():
            return f"timestep {event.timestep} started"
        case OperatorFinished():
            return f"timestep {event.timestep}: operator {event.operator!r} is done"
        case TimestepCommitted():
            return (
                f"timestep {event.timestep} committed in {_ms(event.duration_ms)}:"
                f" {count(event.rows_in)} rows in, {count(event.rows_out)} out"
                f" ({_each(event.phases)})"
            )
        case TimestepFailed():
            return f"timestep {event.timestep} failed: {event.error}: {_line(event.message)}"
        case SinkPublished():
            rows = "" if event.rows is None else f" {count(event.rows)} rows of"
            again = ", again" if event.again else ""
            return f"sink {event.sink!r} published{rows} timestep {event.timestep}{again}"
        case DecisionMade():
            became = event.became and f": {_line(event.became)}"
            return f"controller {event.controller}: {event.outcome}: {_line(event.why)}{became}"
        case Note():
            return f"{event.topic}: {event.text}"
        case _:
            return event.KIND


def _task(task: TaskFinished) -> str:
    where = task.host if task.executor is None else f"executor {task.executor} on {task.host}"
    return (
        f"timestep {task.timestep}: {task.operator!r} task {task.task} on {where}:"
        f" {count(task.rows_in)} rows ({size(task.bytes_in)}) in,"
        f" {count(task.rows_out)} ({size(task.bytes_out)}) out,"
        f" busy {_ms(task.busy_ms)} ({_each(task.ms)})"
    )


def _tasks(event: TasksFinished) -> str:
    return (
        f"timestep {event.timestep}: {event.operator!r}, {event.tasks} tasks:"
        f" {count(event.rows_in)} rows ({size(event.bytes_in)}) in,"
        f" {count(event.rows_out)} ({size(event.bytes_out)}) out,"
        f" busy {_ms(float(event.busy_ms.max()))} at most, {_ms(float(event.busy_ms.sum()))} together"
        f" ({_each(event.ms)})"
    )


def _each(times: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_ms(ms)}" for name, ms in times.items())


def _line(text: str) -> str:
    """The first line, without a traceback."""
    return text.partition("\n")[0]


def _ms(ms: float) -> str:
    return f"{ms:,.0f} ms"
