"""What the tasks of an operator report to the monitor, and what the monitor makes of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

from rechannel.control.library.heaviest import text_of
from rechannel.control.library.sketches import KeyCount, counted, heaviest_of, quantile, timed
from rechannel.kernels.protocol.control import OperatorHandler, TaskView
from rechannel.model.codec import encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the tasks of an operator did in one timestep."""

    tasks: int = 0
    rows: int = 0
    keys: int = 0
    busiest_rows: int = 0
    """Of the task with most of them."""
    slowest_ms: float = 0.0
    """Of the task that was busy longest."""
    ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by activity, over all tasks."""
    lag_ms: float | None = None
    """Largest lag of event time; None without event time."""
    heaviest: tuple[tuple[str, int], ...] = ()
    """Keys with most rows: (key, rows)."""
    groups: tuple[tuple[int, int], ...] = ()
    """Key groups (bins) with most rows: (bin, rows)."""

    @property
    def busiest_share(self) -> float | None:
        """Share of the rows that the busiest task has; None without rows."""
        return self.busiest_rows / self.rows if self.rows else None


class AskLoad(OperatorHandler):
    """Replies with the load of a task."""

    reply_type = Load

    def __init__(self, heaviest: int) -> None:
        self.heaviest = heaviest  # type: ignore[misc]  # of this instance

    def on_complete(self, task: TaskView) -> Load:
        """The load of this task."""
        return Load(
            tasks=1,
            rows=task.rows_in or task.rows_out,
            keys=task.keys,
            busiest_rows=task.rows_in or task.rows_out,
            slowest_ms=sum(task.ms.values()),
            ms=dict(task.ms),
            lag_ms=task.event_time_lag_ms,
            heaviest=tuple((text_of(k.key), k.rows) for k in task.heaviest),
            groups=self._top(enumerate(() if task.bin_rows is None else task.bin_rows.tolist())),
        )

    def merge(self, one: Load, other: Load) -> Load:
        """The load of both."""
        lags = [lag for lag in (one.lag_ms, other.lag_ms) if lag is not None]
        names = one.ms.keys() | other.ms.keys()
        return Load(
            tasks=one.tasks + other.tasks,
            rows=one.rows + other.rows,
            keys=one.keys + other.keys,
            busiest_rows=max(one.busiest_rows, other.busiest_rows),
            slowest_ms=max(one.slowest_ms, other.slowest_ms),
            ms={name: one.ms.get(name, 0.0) + other.ms.get(name, 0.0) for name in names},
            lag_ms=max(lags, default=None),
            heaviest=self._top([*one.heaviest, *other.heaviest]),
            groups=self._top([*one.groups, *other.groups]),
        )

    def _top(self, counts: Iterable[tuple[Any, int]]) -> tuple[tuple[Any, int], ...]:
        """Return those with most rows. Tasks may share a key: their rows are added up."""
        sums: dict[Any, int] = {}
        for name, rows in counts:
            sums[name] = sums.get(name, 0) + rows
        found = nlargest(self.heaviest, sums.items(), key=lambda each: (each[1], each[0]))
        return tuple((name, rows) for name, rows in found if rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is known of an operator."""

    latest: Load = field(default_factory=Load)
    operations: int = 0
    heaviest: tuple[KeyCount, ...] = ()
    """Over all operations."""
    p50_ms: float = 0.0
    """Of the slowest task, over all operations."""
    p99_ms: float = 0.0
    keys_sketch: str = ""
    times_sketch: str = ""

    def after(self, load: Load, most: int) -> Figures:
        """Return the figures after one more operation. most: heaviest keys to show."""
        keys, times = self.keys_sketch, timed(self.times_sketch, load.slowest_ms)
        if load.heaviest:
            keys = counted(keys, load.heaviest)
        return Figures(
            latest=load,
            operations=self.operations + 1,
            heaviest=heaviest_of(keys, most) if keys else (),
            p50_ms=quantile(times, 0.5),
            p99_ms=quantile(times, 0.99),
            keys_sketch=keys,
            times_sketch=times,
        )

    def __str__(self) -> str:
        """In a line."""
        load = self.latest
        busiest = load.busiest_share or 0.0
        parts = [
            f"{load.rows:,} rows in {load.tasks} tasks, the busiest has {busiest:.0%}",
            f"slowest task p50 {self.p50_ms:.3g} ms, p99 {self.p99_ms:.3g} ms",
        ]
        if load.lag_ms is not None:
            parts.append(f"event time lags by {load.lag_ms:,.0f} ms")
        if self.heaviest:
            parts.append(
                "heaviest keys " + ", ".join(f"{k.key} ({k.rows:,})" for k in self.heaviest)
            )
        return "; ".join(parts)


def fitting(operators: Mapping[str, Figures], most: int) -> dict[str, Figures]:
    """Return the figures of the first operators by name that have at most so many bytes as JSON, in that order."""
    sizes = ((name, len(json.dumps(encode(operators[name])))) for name in sorted(operators))
    total, kept = 0, {}
    for name, size in sizes:
        total += size
        if total > most:
            break
        kept[name] = operators[name]
    return kept
