"""Windows of equal length that cost what happens in them, not how long the trace is.

A stretch of more than `QUIET` windows in which nothing begins or ends is one window: every worker
does the same in all of it. If more than `MOST` windows remain, they are made longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np

from rechannel.model.buffers import ragged
from rechannel.profiling.model.trace import NS, Times
from rechannel.profiling.model.words import seconds

WindowSpans = Sequence[tuple[int, int]]
"""Start and end of windows, ns, in order; there may be gaps between them."""

QUIET = 60
"""Windows without a beginning and an end of anything that may stand one by one."""
MOST = 100_000
"""Windows of a trace."""


@dataclass(frozen=True, slots=True)
class EvenWindows(Sequence[tuple[int, int]]):
    """Windows of `length` ns from the beginning of a span to its end; the last may be shorter."""

    span: tuple[int, int]
    length: int

    def __len__(self) -> int:
        begin, end = self.span
        return max(0, -((begin - end) // self.length))

    @overload
    def __getitem__(self, number: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, number: slice) -> list[tuple[int, int]]: ...

    def __getitem__(self, number: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        if isinstance(number, slice):
            return [self._window(at) for at in range(*number.indices(len(self)))]
        return self._window(range(len(self))[number])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return (self._window(number) for number in range(len(self)))

    def _window(self, number: int) -> tuple[int, int]:
        begin, end = self.span
        start = begin + number * self.length
        return start, min(start + self.length, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedWindows:
    """Windows of a trace."""

    windows: WindowSpans
    notes: Sequence[str] = ()
    """How they differ from what was asked for, as sentences."""


def fitted(
    windows: WindowSpans, moments: Iterable[Times], quiet: int = QUIET, most: int = MOST
) -> FittedWindows:
    """Join even windows in which nothing happens, and make all longer if they are too many. Others
    are returned unchanged.

    moments: times at which anything begins or ends, ns, in any order and in parts of any size.
    """
    if not isinstance(windows, EvenWindows):
        return FittedWindows(windows=windows)
    if len(windows) <= quiet:
        return FittedWindows(windows=list(windows))
    (begin, end), length = windows.span, windows.length
    busy = np.empty(0, dtype=np.int64)
    for times in moments:
        inside = times[(times >= begin) & (times < end)]
        busy = np.union1d(busy, (inside - begin) // length)
        while len(busy) > most:
            busy, length = np.unique(busy // 2), length * 2
    while True:
        starts = _starts(busy, len(EvenWindows(windows.span, length)), quiet)
        if len(starts) <= most or len(busy) <= 1:
            break
        busy, length = np.unique(busy // 2), length * 2
    edges = [*(begin + starts * length).tolist(), end]
    notes = []
    if length > windows.length:
        notes.append(
            f"more than {most:,} windows of {seconds(windows.length / NS)} would have something in them:"
            f" windows are {seconds(length / NS)} long"
        )
    return FittedWindows(windows=list(pairwise(edges)), notes=notes)


def _starts(busy: Times, count: int, quiet: int) -> Times:
    """Return the first of every group of windows that are joined, of `count` windows in all."""
    bounds = np.concatenate([[-1], busy, [count]])
    gaps = np.diff(bounds) - 1
    joined = np.where(gaps > quiet, 1, gaps)
    return np.sort(np.concatenate([busy, ragged(bounds[:-1] + 1, joined)]))
