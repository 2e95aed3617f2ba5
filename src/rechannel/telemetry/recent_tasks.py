"""What the tasks of the last timesteps received and took, as columns: a bounded fold of the event stream. Pure.

A timestep counts once it is committed, with the attempts that won. It is folded where events are completed with Spark's
figures, in the thread of the log; without a log, where they happen. The columns of a timestep are never changed, so
any thread may read what is there.

A task takes a core from its launch to its result, while it fetches its input too: that is `core_ms`. Of tasks that
share one of Spark's, each has an equal share of what Spark needed around them. `busy_ms` is what
its function needs of that without waiting for input: DS2's useful time. In-process, and where Spark's figures are
missing, `core_ms` is the time in the function.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.kernels.tasks.report_table import COUNT
from rechannel.telemetry.events import (
    Event,
    JobStarted,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.task_sums import TaskSums, with_timestep
from rechannel.telemetry.tasks_finished import TasksFinished

Floats: TypeAlias = npt.NDArray[np.float64]

MOST_TIMESTEPS = 1_000
MOST_TASKS = 200_000
"""Bound on the tasks that are kept, over all timesteps and operators: about 16 MB. The latest timestep always is."""

TIMESTEPS_WITH_BINS = 16
"""Timesteps whose rows per bin are kept: as many as the running engine looks at."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorTasks:
    """The tasks of one operator in one timestep. Columns of shape (tasks,), in the order of their numbers."""

    numbers: Floats
    """Which task each is, from 0."""
    rows: Floats
    """Rows received."""
    busy_ms: Floats
    """Milliseconds in the task's function, without waiting for input."""
    core_ms: Floats
    """Milliseconds for which it took a core."""
    began_ms: float
    """When the first one was launched, Unix milliseconds."""
    ended_ms: float
    """When the last one was finished."""
    launch_ms: float | None
    """Between two launches, while none had ended; None if fewer than two were launched by then, and without Spark."""
    sent: Mapping[str, int]
    """Rows that arrive at each consumer, so after map-side combine."""
    offered: Mapping[str, int]
    """The same before it."""
    bins: tuple[str, ...] = ()
    """Rows per bin, packed: see `kernels.tasks.binned.unpack_bins`. Only in the latest timesteps."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimestepTasks:
    """The tasks of one committed timestep."""

    timestep: int
    duration_ms: float
    driver: int
    """Which driver ran it: changes with every restart."""
    operators: Mapping[str, OperatorTasks]
    executors: int = 0
    """Executors that had a task; 0 without Spark's figures."""
    at_once: int = 0
    """Most tasks that had a core at the same time."""
    sums: TaskSums | None = None
    """What its tasks did since they are these tasks."""
    turns_ms: float = field(init=False)
    """Milliseconds in which at least one operator had a task."""
    edges: tuple[tuple[str, str], ...] = field(init=False)
    """Who has sent rows to whom, as (producer, consumer)."""
    sent: tuple[int, ...] = field(init=False)
    """How many rows arrive, by edge."""
    binned: tuple[str, ...] = field(init=False)
    """Operators whose rows per bin are known."""

    def __post_init__(self) -> None:
        """Compute what every window asks."""
        object.__setattr__(self, "turns_ms", _turns_ms(self.operators.values()))
        edges = tuple((name, to) for name, of in self.operators.items() for to in of.sent)
        object.__setattr__(self, "edges", _one_of(edges))
        sent = tuple(rows for of in self.operators.values() for rows in of.sent.values())
        object.__setattr__(self, "sent", sent)
        binned = tuple(name for name, of in self.operators.items() if of.bins)
        object.__setattr__(self, "binned", binned)

    @property
    def tasks(self) -> int:
        """Number of all tasks."""
        return sum(len(each.rows) for each in self.operators.values())

    @property
    def driver_ms(self) -> float:
        """Milliseconds in which no operator had a task: what the driver needed if nothing else was in flight."""
        return max(0.0, self.duration_ms - self.turns_ms)

    @property
    def launch_ms(self) -> float | None:
        """Milliseconds between two launches, the median over operators; None if not measured."""
        known = [each.launch_ms for each in self.operators.values() if each.launch_ms is not None]
        return statistics.median(known) if known else None


@dataclass(slots=True)
class _Open:
    """A timestep that is not committed."""

    tasks: dict[str, list[TaskFinished | TasksFinished]] = field(default_factory=dict)


class RecentTasks:
    """Folds events into the tasks of the last timesteps. One thread tells, any may read."""

    def __init__(self, *, timesteps: int = MOST_TIMESTEPS, tasks: int = MOST_TASKS) -> None:
        """timesteps, tasks: how many are kept."""
        self._timesteps, self._tasks = timesteps, tasks
        self._kept: deque[TimestepTasks] = deque()
        self._count = 0
        self._open: dict[int, _Open] = {}
        self._driver = 0
        self._recent: tuple[TimestepTasks, ...] = ()

    @property
    def recent(self) -> tuple[TimestepTasks, ...]:
        """The last committed timesteps, oldest first."""
        return self._recent

    def see(self, events: Iterable[Event]) -> None:
        """Fold events, in the order in which they happened."""
        before = self._kept[-1] if self._kept else None
        for event in events:
            self._see(event)
        if self._kept and self._kept[-1] is not before:
            self._recent = tuple(self._kept)

    def _see(self, event: Event) -> None:
        match event:
            case TaskFinished() | TasksFinished():
                opened = self._open.setdefault(event.timestep, _Open())
                opened.tasks.setdefault(event.operator, []).append(event)
            case TimestepStarted() | TimestepFailed():
                # What an earlier attempt did does not count.
                self._open.pop(event.timestep, None)
            case TimestepCommitted():
                self._commit(event, self._open.pop(event.timestep, _Open()))
                self._open = {t: known for t, known in self._open.items() if t > event.timestep}
            case JobStarted():
                self._open.clear()
                self._driver += 1
            case _:
                pass

    def _commit(self, event: TimestepCommitted, opened: _Open) -> None:
        operators = {name: columns_of(tasks) for name, tasks in opened.tasks.items()}
        last = self._kept[-1] if self._kept else None
        before = None if last is None or last.driver != self._driver else last.sums
        entry = TimestepTasks(
            timestep=event.timestep,
            duration_ms=event.duration_ms,
            driver=self._driver,
            operators=operators,
            sums=with_timestep(before, event.timestep, operators),
            executors=len({each for of in opened.tasks.values() for t in of for each in _on(t)}),
            at_once=at_once([task for of in opened.tasks.values() for task in of]),
        )
        kept = self._kept
        kept.append(entry)
        self._count += entry.tasks
        if len(kept) > TIMESTEPS_WITH_BINS:
            kept[-TIMESTEPS_WITH_BINS - 1] = _without_bins(kept[-TIMESTEPS_WITH_BINS - 1])
        while len(kept) > self._timesteps or (self._count > self._tasks and len(kept) > 1):
            self._count -= kept.popleft().tasks


def recent_tasks(events: Iterable[Event]) -> tuple[TimestepTasks, ...]:
    """Return the tasks of the last timesteps of a saved stream."""
    found = RecentTasks()
    found.see(events)
    return found.recent


def columns_of(tasks: Sequence[TaskFinished | TasksFinished]) -> OperatorTasks:
    """Return the tasks of one operator in one timestep as columns. tasks: at least one."""
    if len(tasks) == 1 and isinstance(tasks[0], TasksFinished):
        return _of_many(tasks[0])
    return _of_few([task for each in tasks for task in _single(each)])


def _of_many(event: TasksFinished) -> OperatorTasks:
    launched, finished = event.launch_ms, event.finish_ms
    freed = event.freed_ms if event.measured_all else None
    return OperatorTasks(
        numbers=event.column("task"),
        rows=event.column(f"{COUNT}rows_in"),
        busy_ms=event.busy_ms,
        core_ms=evened(
            np.maximum(event.busy_ms, finished - launched), event.busy_ms, event.spark_ids
        ),
        began_ms=float(launched.min()),
        ended_ms=float(finished.max()),
        launch_ms=_first_wave(launched, freed),
        sent=event.sent_sums("rows"),
        offered=event.sent_sums("offered"),
        bins=event.bins,
    )


def _single(event: TaskFinished | TasksFinished) -> Iterable[TaskFinished]:
    return event.each() if isinstance(event, TasksFinished) else (event,)


def _on(event: TaskFinished | TasksFinished) -> Iterable[str]:
    """Return the executors that had a task."""
    if isinstance(event, TasksFinished):
        return event.executors
    return (event.executor,) if event.executor else ()


def _of_few(tasks: Sequence[TaskFinished]) -> OperatorTasks:
    figures = np.array([_figures(task) for task in tasks], dtype=np.float64)
    figures = figures[np.argsort(figures[:, 0], kind="stable")]
    numbers, rows, busy, core, launched, finished, shared = figures.T
    sent: dict[str, int] = {}
    offered: dict[str, int] = {}
    for each in (each for task in tasks for each in task.sent):
        sent[each.operator] = sent.get(each.operator, 0) + each.rows
        offered[each.operator] = offered.get(each.operator, 0) + each.offered
    return OperatorTasks(
        numbers=numbers,
        rows=rows,
        busy_ms=busy,
        core_ms=evened(core, busy, shared),
        began_ms=float(launched.min()),
        ended_ms=float(finished.max()),
        launch_ms=_first_wave(launched, _freed_of(tasks)),
        sent=sent,
        offered=offered,
        bins=tuple(task.bins for task in tasks if task.bins is not None),
    )


def at_once(tasks: Sequence[TaskFinished | TasksFinished]) -> int:
    """Return the most tasks that had a core at the same time."""
    if not tasks:
        return 0
    launched = np.sort(np.concatenate([np.atleast_1d(task.launch_ms) for task in tasks]))
    freed = np.sort(np.concatenate([np.atleast_1d(_freed_ms(task)) for task in tasks]))
    ended = np.searchsorted(freed, launched, side="right")
    return int((np.arange(1, len(launched) + 1) - ended).max())


def _figures(task: TaskFinished) -> tuple[float, ...]:
    launched, finished, busy = task.launch_ms, task.finish_ms, task.busy_ms
    # Spark's instants are whole milliseconds.
    core = max(busy, finished - launched)
    shared = -1 - task.task if task.spark_task is None else task.spark_task.task
    return task.task, task.rows_in, busy, core, launched, finished, shared


def evened(core_ms: Floats, busy_ms: Floats, spark_tasks: Floats) -> Floats:
    """Return the time on a core of each task, where those of one task of Spark share what is not theirs.

    Else the first of them would have it all, and what a task costs without rows would look like nothing. spark_tasks:
    Spark's id for each, shape (tasks,).
    """
    _, place, number = np.unique(spark_tasks, return_inverse=True, return_counts=True)
    if len(number) == len(spark_tasks):
        return core_ms
    around = np.bincount(place, weights=core_ms - busy_ms)
    return np.where(number[place] > 1, busy_ms + (around / number)[place], core_ms)


def _freed_ms(task: TaskFinished | TasksFinished) -> float | Floats:
    """Return when a task left its core at the earliest.

    Spark gives the core to the next task before it has the result of this one. The executor's own figures leave out the
    way to it, so that no two tasks of one core overlap.
    """
    if isinstance(task, TasksFinished):
        return task.freed_ms
    if task.spark is None:
        return task.finish_ms
    spark = task.spark
    took_ms = spark.deserialise_ms + spark.run_ms + spark.result_serialise_ms
    return min(spark.finish_ms, spark.launch_ms + took_ms) if took_ms else spark.finish_ms


def _freed_of(tasks: Sequence[TaskFinished]) -> Floats | None:
    """Return when tasks left their cores at the earliest; None if that is not known of all."""
    if any(task.spark is None for task in tasks):
        return None
    return np.array([_freed_ms(task) for task in tasks], dtype=np.float64)


def _first_wave(launched: Floats, freed: Floats | None) -> float | None:
    """Return the milliseconds between launches of the first wave: those before any task had left its core."""
    if freed is None:
        return None
    first = launched[launched < freed.min()]
    return float(first.max() - first.min()) / (len(first) - 1) if len(first) > 1 else None


@lru_cache(maxsize=64)
def _one_of(edges: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the same value for equal edges, which is quick to compare."""
    return edges


def _turns_ms(operators: Iterable[OperatorTasks]) -> float:
    total, until = 0.0, float("-inf")
    for began, ended in sorted((each.began_ms, each.ended_ms) for each in operators):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def _without_bins(entry: TimestepTasks) -> TimestepTasks:
    if not entry.binned:
        return entry
    operators = {name: replace(each, bins=()) for name, each in entry.operators.items()}
    return replace(entry, operators=operators)
