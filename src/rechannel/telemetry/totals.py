"""What a job did since its driver started, as sums that only grow: a fold of the event stream. Pure.

A reader that looks every so often at figures of the latest timestep misses all others. From sums nothing is lost: rates
and quantiles are differences of them, over whatever time is asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TypeVar

from rechannel.telemetry.events import Event, SinkPublished, TimestepCommitted, TimestepFailed
from rechannel.telemetry.facts import BadRows
from rechannel.telemetry.task_finished import JudgedRows, TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished

K = TypeVar("K")

BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of a histogram, in seconds; the last bucket has none."""


@dataclass(slots=True)
class Histogram:
    """Durations by bucket. counts: one per bound of `BOUNDS`, and one of longer durations. total: in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def copy(self) -> Histogram:
        """Return a copy."""
        return Histogram(list(self.counts), self.total)


@dataclass(slots=True, kw_only=True)
class OperatorTotals:
    """Sums over all tasks of an operator. seconds: by activity."""

    rows_in: int = 0
    rows_out: int = 0
    rows_late: int = 0
    rows_dead: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, task: TaskFinished | TasksFinished) -> None:
        """Add the figures of a task, or of many."""
        self.rows_in += task.rows_in
        self.rows_out += task.rows_out
        self.rows_late += task.counts.get("rows_late", 0)
        self.rows_dead += task.counts.get("rows_dead", 0)
        self.bytes_in += task.bytes_in
        self.bytes_out += task.bytes_out
        for activity, ms in task.ms.items():
            self.seconds[activity] = self.seconds.get(activity, 0.0) + ms / 1e3


@dataclass(slots=True, kw_only=True)
class JudgedTotals:
    """Rows of a node that may be bad. failed: by expectation, rows that do not meet it."""

    rows: int = 0
    bad: int = 0
    failed: dict[str, int] = field(default_factory=dict)

    def add(self, judged: JudgedRows) -> None:
        """Add what a task found."""
        self.rows += judged.rows
        self.bad += judged.bad
        for name, rows in judged.failed.items():
            self.failed[name] = self.failed.get(name, 0) + rows

    def copy(self) -> JudgedTotals:
        """Return a copy."""
        return replace(self, failed=dict(self.failed))

    def facts(self) -> BadRows:
        """Return the sums as a value."""
        return BadRows(rows=self.rows, bad=self.bad, failed=dict(self.failed))


@dataclass(slots=True, kw_only=True)
class Sums:
    """All sums. committed: durations of timesteps. published: durations of publishing, by sink. judged: by node."""

    committed: Histogram = field(default_factory=Histogram)
    failed: int = 0
    rows_in: int = 0
    rows_out: int = 0
    operators: dict[str, OperatorTotals] = field(default_factory=dict)
    published: dict[str, Histogram] = field(default_factory=dict)
    judged: dict[str, JudgedTotals] = field(default_factory=dict)


class Totals:
    """Folds events into sums. Any thread may add events, and any may read."""

    def __init__(self) -> None:
        self._sums = Sums()
        self._lock = Lock()

    def see(self, *events: Event) -> None:
        """Fold events."""
        with self._lock:
            for event in events:
                self._see(event)

    @property
    def sums(self) -> Sums:
        """A consistent copy of all sums."""
        with self._lock:
            mine = self._sums
            return replace(
                mine,
                committed=mine.committed.copy(),
                operators=_each(mine.operators, _copied),
                published=_each(mine.published, Histogram.copy),
                judged=_each(mine.judged, JudgedTotals.copy),
            )

    def _see(self, event: Event) -> None:
        sums = self._sums
        match event:
            case TaskFinished() | TasksFinished():
                sums.operators.setdefault(event.operator, OperatorTotals()).add(event)
                for one in event.judged:
                    sums.judged.setdefault(one.node, JudgedTotals()).add(one)
            case TimestepCommitted():
                sums.committed.add(event.duration_ms / 1e3)
                sums.rows_in += event.rows_in
                sums.rows_out += event.rows_out
            case TimestepFailed():
                sums.failed += 1
            case SinkPublished():
                sums.published.setdefault(event.sink, Histogram()).add(event.duration_ms / 1e3)


def _copied(operator: OperatorTotals) -> OperatorTotals:
    return replace(operator, seconds=dict(operator.seconds))


def _each(values: dict[str, K], copy: Callable[[K], K]) -> dict[str, K]:
    return {name: copy(value) for name, value in values.items()}
