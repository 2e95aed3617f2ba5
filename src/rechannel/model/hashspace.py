"""The hash space: integers in [0, 2^64), and sets of half-open intervals of it.

A key's position is its 64-bit hash. Bins, tasks and segments all own *intervals* of that space, so
one small algebra (intersect, subtract, union, mask) serves routing, the manifest, merging and
moves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from rechannel.model.codec import Json, form

SPACE = 1 << 64

HashArray = npt.NDArray[np.uint64]
"""Shape (rows,), one hash per row."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """A set of hashes as disjoint, ascending, non-touching half-open intervals [lo, hi)."""

    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        """Check order and disjointness."""
        last = -1
        for lo, hi in self.spans:
            if not (last < lo < hi <= SPACE):
                msg = f"intervals must ascend, be disjoint and lie in [0, 2^64): {self.spans}"
                raise ValueError(msg)
            last = hi

    @classmethod
    def of(cls, spans: Iterable[tuple[int, int]]) -> Intervals:
        """Build from any spans: empty ones are dropped, overlapping and touching ones are joined."""
        merged: list[tuple[int, int]] = []
        for lo, hi in sorted(spans):
            if lo >= hi:
                continue
            if merged and lo <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(hi, merged[-1][1]))
            else:
                merged.append((lo, hi))
        return cls(tuple(merged))

    @classmethod
    def everything(cls) -> Intervals:
        """Return the whole hash space."""
        return cls(((0, SPACE),))

    @classmethod
    def nothing(cls) -> Intervals:
        """Return the empty set."""
        return cls(())

    def __bool__(self) -> bool:
        """Return whether the set contains any hash."""
        return bool(self.spans)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield (lo, hi) in ascending order."""
        return iter(self.spans)

    @property
    def width(self) -> int:
        """Number of hashes in the set."""
        if len(self.spans) == 1:
            return self.spans[0][1] - self.spans[0][0]
        return sum(hi - lo for lo, hi in self.spans)

    def intersect(self, other: Intervals) -> Intervals:
        """Return the hashes in both sets; this object if both are equal."""
        a, b = self.spans, other.spans
        if a == b:
            return self
        if not a or not b or a[-1][1] <= b[0][0] or b[-1][1] <= a[0][0]:
            return Intervals(())
        out: list[tuple[int, int]] = []
        i, j = _first_after(a, b[0][0]), _first_after(b, a[0][0])
        while i < len(a) and j < len(b):
            (lo, hi), (first, last) = a[i], b[j]
            low, high = max(lo, first), min(hi, last)
            if low < high:
                out.append((low, high))
            if hi < last:
                i += 1
            else:
                j += 1
        return Intervals(tuple(out))

    def subtract(self, other: Intervals) -> Intervals:
        """Return the hashes in this set and not in the other; this object if they have none in common."""
        a, b = self.spans, other.spans
        if not a or not b or a[-1][1] <= b[0][0] or b[-1][1] <= a[0][0]:
            return self
        out: list[tuple[int, int]] = []
        j = _first_after(b, a[0][0])
        for lo, hi in a:
            while j < len(b) and b[j][1] <= lo:
                j += 1
            left, at = lo, j
            while at < len(b) and b[at][0] < hi:
                if left < b[at][0]:
                    out.append((left, b[at][0]))
                left = b[at][1]
                at += 1
            if left < hi:
                out.append((left, hi))
        return self if len(out) == len(a) and tuple(out) == a else Intervals(tuple(out))

    def union(self, other: Intervals) -> Intervals:
        """Return the hashes in either set."""
        return Intervals.of(self.spans + other.spans)

    def slices(self, ordered: HashArray) -> Iterator[slice]:
        """Yield, for each interval, the slice of an ascending hash array that lies in it."""
        if len(self.spans) == 1 and len(ordered):
            lo, hi = self.spans[0]
            if lo <= int(ordered[0]) and int(ordered[-1]) < hi:
                yield slice(0, len(ordered))  # the usual case, without a search
                return
        for lo, hi in self.spans:
            start = int(np.searchsorted(ordered, np.uint64(lo)))
            stop = len(ordered) if hi == SPACE else int(np.searchsorted(ordered, np.uint64(hi)))
            if start < stop:
                yield slice(start, stop)


def _first_after(spans: tuple[tuple[int, int], ...], place: int) -> int:
    """Return the number of the first span that ends after a place."""
    return bisect_right(spans, place, key=itemgetter(1))


def spans_to_json(intervals: Intervals) -> Json:
    """Return [[lo, hi], ...] with both as text: many JSON readers round integers above 2^53."""
    return [[str(lo), str(hi)] for lo, hi in intervals]


def spans_from_json(data: Json) -> Intervals:
    """Invert `spans_to_json`."""
    return Intervals(tuple((int(lo), int(hi)) for lo, hi in data))


form(Intervals, encode=spans_to_json, decode=spans_from_json)
