"""What the driver of an application does from one event to the next: a partition of its time.

The driver's activity changes only when a job, an execution of Spark SQL, a batch or an executor
begins or ends. From each such time to the next, the first rule that applies names it:

1. a job runs: `listing of files` if that is all the job does; `waiting for executors` if there is
   no executor; else `scheduling`;
2. an execution is open: `planning` up to its first job and between its jobs; `broadcast building`
   from the end of a job that collected one side of a broadcast join to the next job; after its last
   job `commit` if it writes, else `collecting results`;
3. a batch is open: `batch planning` up to its first job, `commit` after its last one, and
   `driver program` between (a function of `foreachBatch`);
4. no executor has registered yet: `start-up`;
5. a stream or an interactive session waits: `idle`;
6. else: `driver program`.

These are names of what happens outside tasks. While tasks run, the driver waits for them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from rechannel.profiling.spark.application import Application, Batch, Execution, Executor, Job

T = TypeVar("T")
U = TypeVar("U")
_Event = Job | Execution | Batch | Executor


class DriverKind(StrEnum):
    """Kinds of what the driver does."""

    START_UP = "start-up"
    EXECUTORS = "waiting for executors"
    LISTING = "listing of files"
    PLANNING = "planning"
    BROADCAST = "broadcast building"
    SCHEDULING = "scheduling"
    RESULTS = "collecting results"
    COMMIT = "commit"
    BATCH = "batch planning"
    IDLE = "idle"
    PROGRAM = "driver program"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSpan:
    """Time in which the driver does one thing. Unix milliseconds."""

    kind: DriverKind
    start: int
    end: int
    job: int | None = None
    """The job that runs; without one, the last that ended."""
    next_job: int | None = None
    """The next job that begins."""
    execution: int | None = None
    batch: tuple[str, int] | None = None
    """Stream and number."""


LISTED = "Listing leaf files"
"""How Spark describes jobs that list files."""
_SESSION = re.compile(
    r"PySparkShell|spark[ -]shell|SparkR\b|SparkSQL::|Databricks Shell|zeppelin|livy-session|"
    r"Thrift JDBC|Spark Connect server|jupyter|notebook",
    re.IGNORECASE,
)
_CELL = re.compile(r"<stdin>|<console>|<ipython-input|ipykernel|<cell line|<command-")


def interactive(app: Application) -> bool:
    """Return whether a person, or a client of a server, decides when the next job comes."""
    names = (app.name, app.settings.get("spark.app.name", ""))
    if any(_SESSION.search(name) for name in names):
        return True
    return any(_CELL.search(job.site) for job in app.jobs.values())


def driver_spans(app: Application) -> list[DriverSpan]:
    """Return what the driver did from the application's start to its end, without gaps between
    spans.
    """
    known, now = _Known.of(app), _State()
    events = known.events()
    last = app.start or min((time for time, *_ in events if time), default=app.end)
    found: list[DriverSpan] = []
    for time, begins, event in events:
        until = min(time, app.end)
        if until > last:
            _append(found, _span(known, now, last, until))
            last = until
        now.take(begins, event)
    if app.end > last:
        _append(found, _span(known, now, last, app.end))
    return found


def _append(spans: list[DriverSpan], span: DriverSpan) -> None:
    """Append a span, or make the last one longer if it is of the same."""
    if spans and replace(spans[-1], start=span.start, end=span.end) == span:
        spans[-1] = replace(span, start=spans[-1].start)
    else:
        spans.append(span)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known of an application before its time is cut."""

    app: Application
    starts: Sequence[tuple[int, int]]
    """Start and number of all jobs, sorted."""
    jobs_of: Mapping[int, Sequence[int]]
    """Starts of the jobs of an execution, sorted."""
    streaming: tuple[int, int]
    """Time in which a stream is active."""
    ready: int
    """When the first executor registered; 0 if the log does not say."""
    attended: bool
    """Whether a person decides when the next job comes."""

    @classmethod
    def of(cls, app: Application) -> _Known:
        starts = sorted((job.start, job.number) for job in app.jobs.values())
        jobs_of: dict[int, list[int]] = {}
        for start, number in starts:
            execution = app.jobs[number].execution
            if execution is not None:
                jobs_of.setdefault(execution, []).append(start)
        return cls(
            app=app,
            starts=starts,
            jobs_of=jobs_of,
            streaming=(
                min((batch.start for batch in app.batches), default=0),
                max((batch.end for batch in app.batches), default=0),
            ),
            ready=min((executor.added for executor in app.executors.values()), default=0),
            attended=interactive(app),
        )

    def job_after(self, time: int) -> tuple[int, int] | None:
        """Return start and number of the first job that begins at a time or later."""
        place = bisect_left(self.starts, (time, -1))
        return self.starts[place] if place < len(self.starts) else None

    def events(self) -> list[tuple[int, bool, _Event]]:
        """Return what begins (True) or ends, by time."""
        app = self.app
        found: list[tuple[int, bool, _Event]] = []
        every: list[Job | Execution | Batch] = [
            *app.jobs.values(),
            *app.executions.values(),
            *app.batches,
        ]
        for lasting in every:
            end = lasting.end or app.end
            if end > lasting.start:
                found.append((lasting.start, True, lasting))
            found.append((max(lasting.start, end), False, lasting))
        for executor in app.executors.values():
            found.append((executor.added, True, executor))
            if executor.removed > executor.added:
                found.append((executor.removed, False, executor))
        # At one time, what ends comes before what begins.
        found.sort(key=lambda event: (event[0], event[1]))
        return found


@dataclass(slots=True)
class _State:
    """What is going on at a time."""

    jobs: dict[int, Job] = field(default_factory=dict)
    executions: dict[int, Execution] = field(default_factory=dict)
    batches: dict[tuple[str, int], Batch] = field(default_factory=dict)
    executors: set[str] = field(default_factory=set)
    ended: Job | None = None
    """The job that ended last."""
    ended_of: dict[int, Job] = field(default_factory=dict)
    """The job that ended last of each execution that is open."""

    def take(self, begins: bool, event: _Event) -> None:
        """Take up what begins or ends."""
        match event:
            case Job():
                _put(self.jobs, event.number, event, begins)
                if not begins:
                    self.ended = event
                    if event.execution is not None:
                        self.ended_of[event.execution] = event
            case Execution():
                _put(self.executions, event.number, event, begins)
                if not begins:
                    self.ended_of.pop(event.number, None)
            case Batch():
                _put(self.batches, (event.query, event.number), event, begins)
            case Executor() if begins:
                self.executors.add(event.name)
            case Executor():
                self.executors.discard(event.name)


def _put(things: dict[T, U], key: T, thing: U, there: bool) -> None:
    if there:
        things[key] = thing
    else:
        things.pop(key, None)


def _span(known: _Known, now: _State, start: int, end: int) -> DriverSpan:
    """Return what the driver does in a time in which nothing begins or ends."""
    job = next(iter(now.jobs.values()), None)
    execution = max(now.executions.values(), key=lambda one: one.start, default=None)
    batch = next(reversed(now.batches.values()), None)
    if job is not None:
        kind = _in_job(known, now)
    elif execution is not None:
        kind = _in_execution(known, now, execution, batch, end)
    elif batch is not None:
        kind = _in_batch(known, now, batch, end)
    elif start < known.ready:
        kind = DriverKind.START_UP
    elif known.attended or known.streaming[0] <= start < known.streaming[1]:
        kind = DriverKind.IDLE
    else:
        kind = DriverKind.PROGRAM
    after = known.job_after(end)
    last = job or now.ended
    number = job.execution if job is not None else None if execution is None else execution.number
    return DriverSpan(
        kind=kind,
        start=start,
        end=end,
        job=None if last is None else last.number,
        next_job=None if after is None else after[1],
        execution=number,
        batch=None if batch is None else (batch.query, batch.number),
    )


def _in_job(known: _Known, now: _State) -> DriverKind:
    if all(job.description.startswith(LISTED) for job in now.jobs.values()):
        return DriverKind.LISTING
    if known.app.executors and not now.executors:
        return DriverKind.EXECUTORS
    return DriverKind.SCHEDULING


def _in_execution(
    known: _Known, now: _State, execution: Execution, batch: Batch | None, until: int
) -> DriverKind:
    ended, starts = now.ended_of.get(execution.number), known.jobs_of.get(execution.number, ())
    if batch is not None and not starts:
        # It is that of a batch, whose function has executions of its own.
        return _in_batch(known, now, batch, until)
    if bisect_left(starts, until) < len(starts):
        broadcast = ended is not None and ended.broadcast
        return DriverKind.BROADCAST if broadcast else DriverKind.PLANNING
    if execution.writes or batch is not None:
        return DriverKind.COMMIT
    return DriverKind.RESULTS if starts else DriverKind.PLANNING


def _in_batch(known: _Known, now: _State, batch: Batch, until: int) -> DriverKind:
    after, ended = known.job_after(until), now.ended
    worked = ended is not None and ended.start >= batch.start
    if after is not None and after[0] < batch.end:
        return DriverKind.PROGRAM if worked else DriverKind.BATCH
    return DriverKind.COMMIT if worked else DriverKind.BATCH
