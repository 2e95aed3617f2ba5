"""The spans of one timestep, from its events. Pure.

    timestep
    |- plan
    |- run
    |  |- operator clicks
    |  |  `- task                 (those that were busy longest)
    |  `- operator users          (linked to the operators whose rows it received)
    |- commit
    |- release                    (after the commit)
    `- publish out                (after the commit)

Phases follow one another. Tasks report times of the clocks of their hosts if Spark has none: they are kept within the
phase in which the tasks ran, so that no span leaves its parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from rechannel.exporting.error_texts import ErrorText
from rechannel.exporting.span import Key, Link, Span, Value
from rechannel.metrics.of_operators import sums_of
from rechannel.telemetry.events import (
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished
from rechannel.telemetry.totals import OperatorTotals

Tasks: TypeAlias = TaskFinished | TasksFinished

JOB = "rechannel.job.name"
TIMESTEP = "rechannel.timestep.number"
OPERATOR = "rechannel.operator.name"
PHASES = ("plan", "run", "commit", "release")


@dataclass(slots=True, kw_only=True)
class OpenTimestep:
    """What is known of a timestep that is not committed."""

    started: TimestepStarted
    tasks: dict[str, list[Tasks]] = field(default_factory=dict)
    published: list[SinkPublished] = field(default_factory=list)

    def see(self, tasks: Tasks) -> None:
        """Add what a task did, or several."""
        self.tasks.setdefault(tasks.operator, []).append(tasks)


def key_of(timestep: int) -> Key:
    """Return the key of a timestep's root."""
    return ("timestep", timestep)


def committed_spans(
    job: str, open_: OpenTimestep, committed: TimestepCommitted, most: int
) -> Iterator[Span]:
    """Yield the spans of a committed timestep, every parent before its children. most: tasks per operator."""
    end = float(committed.at_ms)
    start = end - committed.duration_ms
    root = key_of(committed.timestep)
    yield Span(
        key=root,
        name="timestep",
        start_ms=start,
        end_ms=end,
        attributes={
            JOB: job,
            TIMESTEP: committed.timestep,
            **_configured(open_.started),
            "rechannel.rows.in": committed.rows_in,
            "rechannel.rows.out": committed.rows_out,
        },
    )
    for span in _phases(root, start, committed.phases):
        yield span
        if span.name == "run":
            yield from _operators(open_, committed, span, most)


def failed_span(job: str, open_: OpenTimestep, failed: TimestepFailed, errors: ErrorText) -> Span:
    """Return the span of an attempt that failed. errors: how much of the error's text it has."""
    said = errors.of(failed.message)
    error = f"{failed.error}: {said}" if said else failed.error
    return Span(
        key=("failed", failed.timestep, failed.at_ms),
        name="timestep",
        start_ms=open_.started.at_ms,
        end_ms=max(open_.started.at_ms, failed.at_ms),
        attributes={
            JOB: job,
            TIMESTEP: failed.timestep,
            **_configured(open_.started),
            "error.type": failed.error,
            "rechannel.timestep.retried": failed.again_ms is not None,
        },
        error=error,
    )


def published_span(job: str, event: SinkPublished) -> Span:
    """Return the span of a sink that has published a timestep."""
    return Span(
        key=("publish", event.timestep, event.sink, event.at_ms),
        parent=key_of(event.timestep),
        name=f"publish {event.sink}",
        start_ms=event.at_ms - event.duration_ms,
        end_ms=event.at_ms,
        attributes={
            JOB: job,
            TIMESTEP: event.timestep,
            "rechannel.sink.name": event.sink,
            "rechannel.publish.again": event.again,
        },
    )


def _configured(started: TimestepStarted) -> dict[str, Value]:
    if started.configuration is None:
        return {}
    return {"rechannel.configuration.version": started.configuration}


def _phases(root: Key, start: float, phases: Mapping[str, float]) -> Iterator[Span]:
    at = start
    for name in PHASES:
        if name in phases:
            end = at + max(0.0, phases[name])
            yield Span(key=(*root, name), parent=root, name=name, start_ms=at, end_ms=end)
            at = end


def _operators(
    open_: OpenTimestep, committed: TimestepCommitted, run: Span, most: int
) -> Iterator[Span]:
    """Yield the spans of operators and their tasks; who sends rows comes before who receives them."""
    times = {name: _within(run, tasks) for name, tasks in open_.tasks.items()}
    made: set[str] = set()
    for name in sorted(times, key=lambda name: times[name]):
        key: Key = (*run.key, name)
        start, end = times[name]
        yield Span(
            key=key,
            parent=run.key,
            name=f"operator {name}",
            start_ms=start,
            end_ms=end,
            attributes={OPERATOR: name, **_figures(open_.tasks[name]), **_state(committed, name)},
            links=tuple(_received(open_, run.key, name, made)),
        )
        made.add(name)
        yield from _tasks(key, open_.tasks[name], (start, end), most)


def _within(run: Span, tasks: Sequence[Tasks]) -> tuple[float, float]:
    """Return when the first task began and the last one was done, within the phase and in order."""
    began = min(float(np.min(each.launch_ms)) for each in tasks)
    ended = max(float(np.max(each.finish_ms)) for each in tasks)
    start = min(max(began, run.start_ms), run.end_ms)
    return start, min(max(ended, start), run.end_ms)


def _figures(tasks: Sequence[Tasks]) -> dict[str, Value]:
    """Return what an operator's tasks did in total, under the names of the metrics that sum it up."""
    totals = OperatorTotals()
    for task in tasks:
        totals.add(task)
    times = {
        f"rechannel.operator.task.time.{activity}": round(seconds, 6)
        for activity, seconds in sorted(totals.seconds.items())
    }
    number = sum(each.tasks for each in tasks)
    return {"rechannel.operator.tasks": number, **sums_of(totals), **times}


def _state(committed: TimestepCommitted, operator: str) -> dict[str, Value]:
    size = committed.state.get(operator)
    if size is None:
        return {}
    return {"rechannel.operator.state.rows": size.rows, "rechannel.operator.state.size": size.bytes}


def _received(open_: OpenTimestep, run: Key, operator: str, made: set[str]) -> Iterator[Link]:
    """Yield a link to each operator that has sent rows through the exchange."""
    for name, tasks in open_.tasks.items():
        sent = [each for task in tasks for each in _sent(task, operator)]
        if sent and name in made:
            yield Link(
                to=(*run, name),
                attributes={
                    "rechannel.exchange.rows": sum(rows for rows, _ in sent),
                    "rechannel.exchange.size": sum(size for _, size in sent),
                },
            )


def _sent(tasks: Tasks, operator: str) -> Iterator[tuple[int, int]]:
    """Yield rows and bytes that went to an operator."""
    if isinstance(tasks, TaskFinished):
        yield from ((one.rows, one.bytes) for one in tasks.sent if one.operator == operator)
    elif operator in (rows := tasks.sent_sums("rows")):
        yield rows[operator], tasks.sent_sums("bytes")[operator]


def _tasks(
    parent: Key, tasks: Sequence[Tasks], within: tuple[float, float], most: int
) -> Iterator[Span]:
    single = [
        task
        for each in tasks
        for task in ([each] if isinstance(each, TaskFinished) else each.longest(most))
    ]
    for task in sorted(single, key=lambda task: (-task.busy_ms, task.task))[:most]:
        start = min(max(task.launch_ms, within[0]), within[1])
        yield Span(
            key=(*parent, task.task),
            parent=parent,
            name="task",
            start_ms=start,
            end_ms=min(max(task.finish_ms, start), within[1]),
            attributes={
                OPERATOR: task.operator,
                "rechannel.task.number": task.task,
                "rechannel.task.host": task.host,
                **({} if task.executor is None else {"rechannel.task.executor": task.executor}),
                "rechannel.task.rows.in": task.rows_in,
                **{
                    f"rechannel.task.time.{activity}": round(ms / 1e3, 6)
                    for activity, ms in sorted(task.ms.items())
                },
            },
        )
