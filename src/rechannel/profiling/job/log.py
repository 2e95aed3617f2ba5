"""The telemetry of a job as columns. Pure: a fold over the event stream.

A task counts once its timestep is committed: what failed, or was left unfinished by a driver, runs
again and is reported again. Telemetry files are few and of limited size, so all columns of a job
fit into memory.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rechannel.telemetry.events import (
    Event,
    JobStarted,
    JobStopped,
    OperatorFinished,
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished

PHASES = ("wait", "deserialise", "fetch", "lookup", "process", "merge", "write", "send", "outbox")
"""Activities of a task, in the order in which they are assumed to run."""
TASK_COLUMNS = (
    "slot",
    "operator",
    "step",
    "started",
    "finished",
    "launch",
    "finish",
    "attempt",
    "stateful",
    "shuffle",
    *PHASES,
)
"""Columns of tasks. slot: number in `JobLog.slots`. step: row of `JobLog.steps`. launch: -1 if not
measured.
"""
TIMESTEP_COLUMNS = ("began", "decided", "ran", "committed", "released")
"""Columns of timesteps."""
_LATEST, _LONGEST = 4_102_444_800_000, 100_000_000_000
"""Bounds in ms: no clock is later than the year 2100, and nothing lasts longer than three years."""
_TRUNCATED = 1.0
"""Milliseconds by which the driver's times may be early: they are truncated to whole milliseconds.
"""

Floats = npt.NDArray[np.float64]
_OPERATOR, _FINISHED = TASK_COLUMNS.index("operator"), TASK_COLUMNS.index("finished")
_LAUNCH, _FINISH = TASK_COLUMNS.index("launch"), TASK_COLUMNS.index("finish")


@dataclass
class _OpenTimestep:
    """A timestep that is not committed."""

    began: float | None = None
    rows: list[list[float]] = field(default_factory=list)
    """Its tasks."""
    feeds: set[tuple[int, int]] = field(default_factory=set)
    """Pairs (producer, consumer) of operators."""


class JobLog:
    """Collects events in order. All times are ms."""

    def __init__(self) -> None:
        self.job = ""
        self.version = ""
        # How many timesteps sinks may lag; None if unknown.
        self.backlog: int | None = None
        # Numbers of operators, and of (operator, task).
        self.operators: dict[str, int] = {}
        self.slots: dict[tuple[str, int], int] = {}
        # Where slots ran last, if Spark said so.
        self.executors: dict[tuple[str, int], str] = {}
        # Operators whose tasks have bins.
        self.stateful: set[str] = set()
        # Start and end of drivers, and of timesteps that failed.
        self.drivers: list[tuple[float, float]] = []
        self.failed: list[tuple[float, float]] = []
        # Timestep, sink, start, end.
        self.published: list[tuple[int, int, float, float]] = []
        self._open: dict[int, _OpenTimestep] = {}
        self._numbers = array("q")
        self._steps = array("d")
        self._tasks = array("d")
        self._asked = array("q")
        self._since: float | None = None
        self._seen = 0.0

    def see(self, event: Event) -> None:
        """Take up the next event. Raises TypeError or ValueError for impossible figures."""
        match event:
            case JobStarted():
                at = _time(event.at_ms)
                self._ended(self._seen)
                self._since = self._seen = at
                self.job, self.backlog = event.job, event.backlog
                self.version = event.versions.get("rechannel", "")
            case JobStopped():
                self._ended(self._at(event.at_ms))
            case TimestepStarted():
                began = self._at(event.at_ms)
                self._drop(event.timestep, began)
                self._open[event.timestep] = _OpenTimestep(began)
            case TaskFinished():
                self._add(event)
            case TasksFinished():
                for task in event.each():
                    self._add(task)
            case TimestepFailed():
                self._drop(event.timestep, self._at(event.at_ms))
            case TimestepCommitted():
                self._commit(event)
            case SinkPublished():
                end = self._at(event.at_ms)
                took = _length(event.duration_ms)
                sink = self._operator(event.sink)
                self.published.append((event.timestep, sink, end - took, end))
            case OperatorFinished():
                self._at(event.at_ms)
            case _:
                pass

    def close(self) -> None:
        """End the log."""
        if self._since is not None:
            self.drivers.append((self._since, self._seen))
            self._since = None

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Timestep of every row of `steps`. Shape (steps,)."""
        return np.array(self._numbers, dtype=np.int64)

    @property
    def steps(self) -> Floats:
        """Committed timesteps. Shape (steps, 5), columns as in `TIMESTEP_COLUMNS`."""
        return np.array(self._steps).reshape(-1, len(TIMESTEP_COLUMNS))

    @property
    def tasks(self) -> Floats:
        """Tasks of committed timesteps. Shape (tasks, columns), columns as in `TASK_COLUMNS`."""
        return np.array(self._tasks).reshape(-1, len(TASK_COLUMNS))

    @property
    def asked(self) -> npt.NDArray[np.int64]:
        """Pairs of tasks: one that received rows, and the last task of one of its producers. Shape
        (pairs, 2).
        """
        return np.array(self._asked, dtype=np.int64).reshape(-1, 2)

    @property
    def under_way(self) -> list[tuple[float, float]]:
        """Timesteps that had not ended when the log did."""
        return [(each.began, self._seen) for each in self._open.values() if each.began is not None]

    def _at(self, ms: float) -> float:
        """Note a time of the driver. The driver exists since the first of them."""
        at = _time(ms)
        self._since = at if self._since is None else self._since
        self._seen = max(at, self._seen)
        return at

    def _ended(self, at: float) -> None:
        """Note that a driver is gone; its unfinished timesteps failed."""
        if self._since is None:
            return
        self.drivers.append((self._since, max(at, self._since)))
        self._since = None
        for timestep in list(self._open):
            self._drop(timestep, at)

    def _drop(self, timestep: int, at: float) -> None:
        gone = self._open.pop(timestep, None)
        if gone is not None and gone.began is not None:
            self.failed.append((gone.began, at))

    def _add(self, task: TaskFinished) -> None:
        slot = self.slots.setdefault((task.operator, task.task), len(self.slots))
        operator, spark = self._operator(task.operator), task.spark
        if spark is not None:
            self.executors[task.operator, task.task] = spark.executor
        if task.bins is not None:
            self.stateful.add(task.operator)
        row = [
            slot,
            operator,
            0,
            _time(task.started_ms),
            _time(task.finished_ms),
            -1 if spark is None else _time(spark.launch_ms),
            _time(task.finished_ms if spark is None else spark.finish_ms),
            _length(0 if spark is None else spark.attempt),
            task.bins is not None,
            _length(0 if spark is None else spark.shuffle_write_ms),
            *(_length(task.ms.get(name, 0)) for name in PHASES),
        ]
        held = self._open.setdefault(task.timestep, _OpenTimestep())
        held.rows.append(row)
        held.feeds.update((operator, self._operator(sent.operator)) for sent in task.sent)

    def _commit(self, event: TimestepCommitted) -> None:
        known, at = self._open.get(event.timestep, _OpenTimestep()), _time(event.at_ms)
        began = known.began
        if began is None:
            began = max(0.0, at - _length(event.duration_ms))
        self._at(began)
        phases = {"run": event.duration_ms, **event.phases}
        lengths = [_length(phases.get(name, 0)) for name in ("plan", "run", "commit", "release")]
        times = np.cumsum([began, *lengths])
        last = max((row[_FINISH] for row in known.rows), default=0.0)
        times += min(max(0.0, last - times[TIMESTEP_COLUMNS.index("ran")]), _TRUNCATED)
        self._numbers.append(event.timestep)
        self._steps.extend(times.tolist())
        self._open.pop(event.timestep, None)
        self._seen = max(self._seen, float(times[-1]))
        self._ask(known)
        for row in known.rows:
            row[TASK_COLUMNS.index("step")] = len(self._numbers) - 1
            self._tasks.extend(row)

    def _ask(self, known: _OpenTimestep) -> None:
        """Record which tasks sent the last rows that others waited for."""
        first, last = len(self._tasks) // len(TASK_COLUMNS), dict[float, int]()
        for i, row in enumerate(known.rows):
            operator = row[_OPERATOR]
            if operator not in last or row[_FINISHED] > known.rows[last[operator]][_FINISHED]:
                last[operator] = i
        feeds = sorted(pair for pair in known.feeds if pair[0] in last)
        for i, row in enumerate(known.rows):
            for producer, consumer in feeds:
                if consumer == row[_OPERATOR]:
                    self._asked.extend((first + i, first + last[producer]))

    def _operator(self, name: str) -> int:
        return self.operators.setdefault(name, len(self.operators))


def _time(ms: float) -> float:
    if not 0 <= ms < _LATEST:
        msg = f"{ms} is not the time of an event: expected milliseconds since 1970, before the year 2100"
        raise ValueError(msg)
    return float(ms)


def _length(ms: float) -> float:
    return min(max(0.0, float(ms)), float(_LONGEST))
