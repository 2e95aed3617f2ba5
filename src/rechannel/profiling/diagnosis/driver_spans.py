"""What the driver did from one event to the next, with the job, execution and batch that it did it for.

`spark.driver` says what it did; this adds the numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application, Batch, Execution, Job
from rechannel.profiling.spark.driver import DRIVER_KINDS, DriverTimeline, driver_timeline

T = TypeVar("T")
U = TypeVar("U")
_Event = Job | Execution | Batch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSpan:
    """Time in which the driver does one thing, ms."""

    kind: str
    """One of `spark.driver.DRIVER_KINDS`."""
    start: int
    end: int
    job: int | None = None
    """The job that runs; without one, the last that ended."""
    next_job: int | None = None
    """The next job that begins."""
    execution: int | None = None
    batch: tuple[str, int] | None = None
    """Stream and number."""


def driver_spans(app: Application) -> list[DriverSpan]:
    """Return what the driver did from the application's start to its end, without gaps between
    spans.
    """
    timeline = driver_timeline(app)
    starts = sorted((job.start, job.number) for job in app.jobs.values())
    events, now = _events(app, timeline), _State()
    times, kinds = timeline.times.tolist(), timeline.kinds.tolist()
    last = app.start or min((time for time, *_ in events if time), default=app.end)
    found: list[DriverSpan] = []
    for time, begins, event in [*events, (app.end, False, None)]:
        until = min(time, app.end)
        if until > last:
            kind = kinds[max(0, bisect_right(times, last * MS) - 1)]
            _append(found, _span(DRIVER_KINDS[kind], now, starts, (last, until)))
            last = until
        now.take(begins, event)
    return found


def _events(app: Application, timeline: DriverTimeline) -> list[tuple[int, bool, _Event]]:
    """Return what begins (True) or ends, and what else changes, by time."""
    every: list[Job | Execution | Batch] = [
        *app.jobs.values(),
        *app.executions.values(),
        *app.batches,
    ]
    found: list[tuple[int, bool, _Event]] = [
        (time // MS, False, None) for time in timeline.times.tolist()
    ]
    for lasting in every:
        end = lasting.end or app.end
        if end > lasting.start:
            found.append((lasting.start, True, lasting))
        found.append((max(lasting.start, end), False, lasting))
    # At one time, what ends comes before what begins.
    found.sort(key=lambda event: (event[0], event[1]))
    return found


@dataclass(slots=True)
class _State:
    """What is going on at a time."""

    jobs: dict[int, Job] = field(default_factory=dict)
    executions: dict[int, Execution] = field(default_factory=dict)
    batches: dict[tuple[str, int], Batch] = field(default_factory=dict)
    ended: Job | None = None
    """The job that ended last."""

    def take(self, begins: bool, event: _Event) -> None:
        """Take up what begins or ends."""
        match event:
            case Job():
                _put(self.jobs, event.number, event, begins)
                self.ended = self.ended if begins else event
            case Execution():
                _put(self.executions, event.number, event, begins)
            case Batch():
                _put(self.batches, (event.query, event.number), event, begins)


def _put(things: dict[T, U], key: T, thing: U, there: bool) -> None:
    if there:
        things[key] = thing
    else:
        things.pop(key, None)


def _span(
    kind: str, now: _State, starts: Sequence[tuple[int, int]], times: tuple[int, int]
) -> DriverSpan:
    job = next(iter(now.jobs.values()), None)
    execution = max(now.executions.values(), key=lambda one: one.start, default=None)
    after = bisect_left(starts, (times[1], -1))
    last = job or now.ended
    number = job.execution if job is not None else None if execution is None else execution.number
    return DriverSpan(
        kind=kind,
        start=times[0],
        end=times[1],
        job=None if last is None else last.number,
        next_job=starts[after][1] if after < len(starts) else None,
        execution=number,
        batch=next(reversed(now.batches), None),
    )


def _append(spans: list[DriverSpan], span: DriverSpan) -> None:
    """Append a span, or make the last one longer if it is of the same."""
    if spans and _same(spans[-1], span):
        spans[-1] = replace(span, start=spans[-1].start)
    else:
        spans.append(span)


def _same(one: DriverSpan, other: DriverSpan) -> bool:
    """Return whether spans differ in their times only."""
    return (one.kind, one.job, one.next_job, one.execution, one.batch) == (
        *(other.kind, other.job, other.next_job),
        *(other.execution, other.batch),
    )
