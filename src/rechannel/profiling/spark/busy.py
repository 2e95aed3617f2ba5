"""When at least one task ran: merged intervals, and how much of any span of time they cover."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import MS, Times
from rechannel.profiling.storage.blocks import Rows

INTERVALS = 1 << 18
"""Intervals that are kept; beyond that, the shortest gaps between them are closed."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Time that is covered by intervals which do not overlap."""

    intervals: Times
    """Starts and ends in ns, sorted. Shape (intervals, 2)."""

    def before(self, ms: npt.ArrayLike) -> Floats:
        """Return how many ms are covered before each of some Unix times in ms."""
        times = np.asarray(ms, dtype=np.float64)
        if not len(self.intervals):
            return np.zeros_like(times)
        first = int(self.intervals[0, 0])
        known = (self.intervals - first).ravel() / MS
        lasted = np.diff(self.intervals, axis=1).ravel() / MS
        covered = np.column_stack([np.cumsum(lasted) - lasted, np.cumsum(lasted)]).ravel()
        found: Floats = np.interp(times - first / MS, known, covered)
        return found

    def within(self, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Floats:
        """Return how many ms of each span are covered. starts, ends: Unix ms."""
        return self.before(ends) - self.before(starts)


def worked(
    blocks: Iterable[Rows],
    span_of: Callable[[Rows], tuple[Times, Times]],
    times: Sequence[float],
) -> Floats:
    """Return how many ms rows last in all before each of some Unix times in ms: of two rows at the
    same time, both count. span_of: starts and ends of rows, ns.
    """
    first = min(times)
    until = np.asarray(times, dtype=np.float64) - first
    found = np.zeros_like(until)
    for rows in blocks:
        for values, sign in zip(span_of(rows), (1, -1), strict=True):
            since = np.sort(values / MS - first)
            sums = np.concatenate([[0.0], np.cumsum(since)])
            before = np.searchsorted(since, until)
            found += sign * (before * until - sums[before])
    return found


def busy(blocks: Iterable[Rows], span_of: Callable[[Rows], tuple[Times, Times]]) -> Busy:
    """Return when at least one row lasts. span_of: starts and ends of rows, ns."""
    found = np.empty((0, 2), dtype=np.int64)
    for rows in blocks:
        starts, ends = span_of(rows)
        found = closed(merged(np.vstack([found, np.column_stack([starts, ends])])), INTERVALS)
    return Busy(intervals=found)


def merged(spans: Times) -> Times:
    """Return intervals without overlaps, sorted, that cover the same time. Shapes (n, 2)."""
    if not len(spans):
        return spans
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, 1])
    first = np.flatnonzero(np.concatenate([[True], ordered[1:, 0] > reach[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(ordered) - 1]])
    return np.column_stack([ordered[first, 0], reach[last]])


def closed(intervals: Times, most: int) -> Times:
    """Return at most so many intervals as `most`: the shortest gaps are closed."""
    surplus = len(intervals) - most
    if surplus <= 0:
        return intervals
    gaps = intervals[1:, 0] - intervals[:-1, 1]
    kept = np.ones(len(gaps), dtype=np.bool_)
    kept[np.argpartition(gaps, surplus - 1)[:surplus]] = False
    starts = intervals[np.concatenate([[True], kept]), 0]
    ends = intervals[np.concatenate([kept, [True]]), 1]
    return np.column_stack([starts, ends])
