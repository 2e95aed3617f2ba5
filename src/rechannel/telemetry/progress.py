"""How far a job is and how fast: a fold of the event stream. Pure.

Timesteps are committed in order but run at the same time, so their events are interleaved. A sink that
publishes after the commit is added to the entry of its timestep; tasks that report later are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from threading import Lock

from rechannel.telemetry.events import (
    Event,
    JobStarted,
    Note,
    OperatorFinished,
    SinkPublished,
    StateSize,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.facts import (
    OperatorProgress,
    SinkProgress,
    SlowestTask,
    SourceLag,
    TimestepProgress,
)
from rechannel.telemetry.lag import LagOfSource
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished
from rechannel.telemetry.totals import JudgedTotals

TROUBLE = "trouble"
"""Topic of notes about failures outside of timesteps. In `data`, `of` names what fails and `error` says why; None = it
works again."""


@dataclass(slots=True)
class _Operator:
    """Sums over the tasks of one operator in one timestep."""

    tasks: int = 0
    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    rows_dead: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    keys: int = 0
    ms: dict[str, float] = field(default_factory=dict)
    slowest: TaskFinished | None = None
    finished_ms: int | None = None

    def add(self, task: TaskFinished | TasksFinished) -> None:
        self.tasks += task.tasks
        self.rows_in += task.rows_in
        self.rows_out += task.rows_out
        self.rows_late += task.counts.get("rows_late", 0)
        self.rows_dead += task.counts.get("rows_dead", 0)
        self.bytes_in += task.bytes_in
        self.bytes_out += task.bytes_out
        self.keys += task.keys
        for activity, ms in task.ms.items():
            self.ms[activity] = self.ms.get(activity, 0.0) + ms
        slowest = task.slowest
        if self.slowest is None or slowest.busy_ms > self.slowest.busy_ms:
            self.slowest = slowest

    def facts(self, state: StateSize | None, watermark_ms: int | None) -> OperatorProgress:
        return OperatorProgress(
            tasks=self.tasks,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            rows_late=self.rows_late,
            rows_dead=self.rows_dead,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            keys=self.keys,
            ms=_rounded(self.ms),
            slowest_task=None if self.slowest is None else _slowest(self.slowest),
            finished_ms=self.finished_ms,
            state_rows=None if state is None else state.rows,
            state_bytes=None if state is None else state.bytes,
            watermark_ms=watermark_ms,
        )


@dataclass(slots=True)
class _Timestep:
    """What is known about an uncommitted timestep."""

    started: TimestepStarted | None = None
    since_previous_ms: int | None = None
    operators: dict[str, _Operator] = field(default_factory=dict)
    sinks: dict[str, SinkProgress] = field(default_factory=dict)
    judged: dict[str, JudgedTotals] = field(default_factory=dict)


class Progress:
    """The last committed timesteps of a job.

    keep: how many timesteps `recent_progress` holds. Any thread may tell, and any may read.
    """

    def __init__(self, *, keep: int = 100) -> None:
        if keep < 1:
            msg = f"keep must be at least 1, not {keep}"
            raise ValueError(msg)
        self._keep = keep
        self._open: dict[int, _Timestep] = {}
        self._committed = -1
        self._recent: tuple[TimestepProgress, ...] = ()
        self._previous: TimestepStarted | None = None
        self._troubles: dict[str, str] = {}
        self._failures: dict[int, int] = {}
        self._lags: dict[str, LagOfSource] = {}
        self._lock = Lock()

    @property
    def last_progress(self) -> TimestepProgress | None:
        """The newest committed timestep; None before the first."""
        recent = self._recent
        return recent[-1] if recent else None

    @property
    def recent_progress(self) -> list[TimestepProgress]:
        """The last committed timesteps, oldest first."""
        return list(self._recent)

    @property
    def open_since_ms(self) -> int | None:
        """When the oldest timestep that is not committed began, or began again; None if there is none."""
        with self._lock:
            began = (each.started.at_ms for each in self._open.values() if each.started)
            return min(began, default=None)

    @property
    def troubles(self) -> dict[str, str]:
        """What fails and is retried, as far as events say: a sentence by topic."""
        with self._lock:
            return dict(self._troubles)

    def see(self, *events: Event) -> None:
        """Fold events, in the order in which they happened."""
        with self._lock:
            for event in events:
                self._see(event)

    def _see(self, event: Event) -> None:
        match event:
            case JobStarted():
                # What a driver before this one began is begun anew, or never was.
                self._open.clear()
                self._previous = None
                self._troubles.clear()
                self._failures.clear()
                self._lags.clear()
                self._committed = event.timestep - 1
            case TimestepStarted():
                self._start(event)
            case TaskFinished() | TasksFinished():
                self._operator(event).add(event)
                self._judge(event)
            case OperatorFinished():
                self._operator(event).finished_ms = event.at_ms
            case SinkPublished():
                self._publish(event)
            case TimestepCommitted():
                self._commit(event)
            case TimestepFailed():
                self._open.pop(event.timestep, None)
                self._failures[event.timestep] = self._failures.get(event.timestep, 0) + 1
            case Note() if event.topic == TROUBLE:
                self._trouble(event)
            case _:
                pass

    def _operator(self, event: TaskFinished | TasksFinished | OperatorFinished) -> _Operator:
        if event.timestep <= self._committed:
            return _Operator()
        timestep = self._open.setdefault(event.timestep, _Timestep())
        return timestep.operators.setdefault(event.operator, _Operator())

    def _judge(self, event: TaskFinished | TasksFinished) -> None:
        if event.timestep > self._committed and event.judged:
            timestep = self._open.setdefault(event.timestep, _Timestep())
            for one in event.judged:
                timestep.judged.setdefault(one.node, JudgedTotals()).add(one)

    def _start(self, event: TimestepStarted) -> None:
        # A second start of one timestep is its replay: nothing of the first attempt counts.
        timestep = self._open[event.timestep] = _Timestep(started=event)
        if self._previous is not None and self._previous.timestep < event.timestep:
            timestep.since_previous_ms = event.at_ms - self._previous.at_ms
        self._previous = event

    def _publish(self, event: SinkPublished) -> None:
        published = SinkProgress(
            at_ms=event.at_ms,
            duration_ms=event.duration_ms,
            rows=event.rows,
            bytes=event.bytes,
        )
        if event.timestep in self._open:
            self._open[event.timestep].sinks[event.sink] = published
        else:
            self._recent = _with_sink(self._recent, event, published)

    def _trouble(self, event: Note) -> None:
        self._troubles.pop(event.data["of"], None)
        if event.data["error"] is not None:
            self._troubles[event.data["of"]] = event.data["error"]

    def _commit(self, event: TimestepCommitted) -> None:
        timestep = self._open.pop(event.timestep, None) or _Timestep()
        failures = self._failures.get(event.timestep, 0)
        entry = _entry(event, timestep, failures, dict(self._troubles), self._lag(timestep))
        self._failures = {t: n for t, n in self._failures.items() if t > event.timestep}
        self._recent = (*self._recent, entry)[-self._keep :]
        # Commits come in order, so whatever is older will not be heard of again.
        self._committed = event.timestep
        self._open = {t: known for t, known in self._open.items() if t > event.timestep}

    def _lag(self, timestep: _Timestep) -> dict[str, SourceLag]:
        """Return the lag of the stream, by source."""
        started = timestep.started
        if started is None:
            return {}
        lags: dict[str, SourceLag] = {}
        for name in {**started.offsets, **started.backlog}:
            read = timestep.operators.get(name, _Operator())
            of = self._lags.setdefault(name, LagOfSource())
            left = started.backlog.get(name)
            lags[name] = of.see(started.at_ms, left, read.rows_in, read.bytes_in)
        return lags


def fold(events: Iterable[Event], *, keep: int = 100) -> Progress:
    """Return the progress that a saved stream describes."""
    progress = Progress(keep=keep)
    for event in events:
        progress.see(event)
    return progress


def _entry(
    committed: TimestepCommitted,
    timestep: _Timestep,
    failures: int,
    troubles: dict[str, str],
    lag: dict[str, SourceLag],
) -> TimestepProgress:
    started = timestep.started
    for name in committed.state:
        timestep.operators.setdefault(name, _Operator())
    return TimestepProgress(
        timestep=committed.timestep,
        now_ms=None if started is None else started.now_ms,
        started_ms=None if started is None else started.at_ms,
        committed_ms=committed.at_ms,
        duration_ms=committed.duration_ms,
        configuration=None if started is None else started.configuration,
        phases=dict(committed.phases),
        rows_in=committed.rows_in,
        rows_out=committed.rows_out,
        input_rows_per_second=_rate(committed.rows_in, timestep.since_previous_ms),
        processed_rows_per_second=_rate(committed.rows_in, committed.duration_ms),
        output_rows_per_second=_rate(committed.rows_out, committed.duration_ms),
        operators={
            name: operator.facts(committed.state.get(name), committed.watermarks.get(name))
            for name, operator in timestep.operators.items()
        },
        sources=dict(started.offsets) if started else {},
        sinks=timestep.sinks,
        failures=failures,
        troubles=troubles,
        backlog={name: each.rows for name, each in lag.items()},
        lag=lag,
        bad_rows={node: judged.facts() for node, judged in timestep.judged.items()},
    )


def _with_sink(
    recent: tuple[TimestepProgress, ...], event: SinkPublished, published: SinkProgress
) -> tuple[TimestepProgress, ...]:
    """Return entries of which one has one more sink. It is a copy; readers may hold the old entry."""
    for place in reversed(range(len(recent))):  # it is among the newest
        entry = recent[place]
        if entry.timestep == event.timestep:
            with_it = replace(entry, sinks={**entry.sinks, event.sink: published})
            return (*recent[:place], with_it, *recent[place + 1 :])
    return recent


def _slowest(task: TaskFinished) -> SlowestTask:
    return SlowestTask(
        task=task.task,
        host=task.host,
        executor=task.executor,
        busy_ms=round(task.busy_ms, 3),
        ms=dict(task.ms),
    )


def _rate(rows: int, ms: float | None) -> float | None:
    """Return rows per second; None if no time has passed."""
    return round(rows * 1e3 / ms, 1) if ms is not None and ms > 0 else None


def _rounded(ms: dict[str, float]) -> dict[str, float]:
    return {activity: round(value, 3) for activity, value in ms.items()}
