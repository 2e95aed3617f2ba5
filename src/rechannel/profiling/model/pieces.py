"""A trace in pieces: some windows in a row, with all rows that say what happened in them.

A piece is analysed by itself. So an analysis holds one at a time, of about `PIECE_ROWS` rows, and pieces may be done
anywhere, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.timeline import Timeline, timeline
from rechannel.profiling.model.trace import Names, Times, Trace
from rechannel.profiling.model.window_graph import WindowGraph, window_graph

PIECE_ROWS = 1 << 18
"""Activities and messages of a piece, about; one window may have more."""

WindowSpans = Sequence[tuple[int, int]]
"""Begin and end, ns; one behind the other, with or without something between them."""


class TraceParts(Protocol):
    """A trace that was cut."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Trace: ...


class TraceSource(Protocol):
    """Where a trace comes from, of whatever size."""

    @property
    def names(self) -> Names:
        """What its numbers stand for."""
        ...

    @property
    def span(self) -> tuple[int, int]:
        """Its begin and end, ns."""
        ...

    @property
    def about(self) -> str:
        """How much it has, in words."""
        ...

    def before(self, times: Times) -> npt.NDArray[np.float64]:
        """About how many activities and messages lie before each of some times."""
        ...

    def cut(self, cuts: Times) -> TraceParts:
        """Part i has all that says what happened from cuts[i] to cuts[i + 1], and may have more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Windows `first`, `first` + 1, ... of a trace. span: of the whole trace, ns. threshold: of gaps, ns.

    final: whether what begins where they end is in no window behind them.
    """

    trace: Trace
    span: tuple[int, int]
    threshold: int
    first: int
    windows: WindowSpans
    final: bool

    @property
    def line(self) -> Timeline:
        """What workers did; as in the whole trace within the windows, of no meaning elsewhere."""
        return timeline(self.trace, threshold=self.threshold, span=self.span)

    def graphs(self) -> Iterator[tuple[int, WindowGraph]]:
        """Number and graph of every window."""
        line, went = self.line, self.trace.messages
        edges = np.array([*(start for start, _ in self.windows), self.windows[-1][1]])
        spans = _Cut.of(line.start, line.end, edges, final=self.final)
        sent = _Cut.of(went.sent, went.received, edges, final=self.final)
        for i, (start, end) in enumerate(self.windows):
            mine, sent_then = line.take(spans.of_window(i)), went.take(sent.of_window(i))
            yield self.first + i, window_graph(mine, sent_then, start, end)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """All pieces of a trace, made when they are asked for. starts: the first window of every piece."""

    source: TraceSource
    windows: WindowSpans
    threshold: int
    starts: Sequence[int]
    parts: TraceParts = field(repr=False)

    @classmethod
    def of(
        cls, source: TraceSource, windows: WindowSpans, threshold: int = 0, rows: int | None = None
    ) -> Pieces:
        """rows: of a piece, about; `PIECE_ROWS` by default."""
        begins = np.array([start for start, _ in windows], dtype=np.int64)
        # A worker that waits does so in every window.
        waiting = np.arange(len(begins)) * len(source.names.workers)
        group = ((source.before(begins) + waiting) // (rows or PIECE_ROWS)).astype(np.int64)
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        cuts = np.append(begins[starts], windows[-1][1] if windows else 0)
        return cls(
            source=source,
            windows=windows,
            threshold=threshold,
            starts=starts.tolist(),
            parts=source.cut(cuts),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Piece]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Piece:
        first = self.starts[number]
        last = self.starts[number + 1] if number + 1 < len(self) else len(self.windows)
        return Piece(
            trace=self.parts[number],
            span=self.source.span,
            threshold=self.threshold,
            first=first,
            windows=self.windows[first:last],
            final=last == len(self.windows) or self.windows[last - 1][1] < self.windows[last][0],
        )

    def of_window(self, number: int) -> Piece:
        """The piece that has a window."""
        return self[int(np.searchsorted(self.starts, number, side="right")) - 1]


def windows_of(span: tuple[int, int], length: int) -> WindowSpans:
    """Windows of `length` ns from the begin of a trace to its end; the last one may be shorter."""
    begin, end = span
    return [(at, min(at + length, end)) for at in range(begin, end, length)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cut:
    """Which intervals meet which windows. places: of intervals, by window; first: of every window, and the end."""

    places: Times
    first: Times

    @classmethod
    def of(cls, start: Times, end: Times, edges: Times, *, final: bool) -> _Cut:
        """Intervals in the order that they have. One that ends where a window begins is in the one before, too.

        edges: begins of windows, and the end. final: whether what begins at that end is in the last window.
        """
        windows = len(edges) - 1
        met = np.flatnonzero((end >= edges[0]) & ((start < edges[-1]) | final))
        one = np.clip(np.searchsorted(edges, start[met], side="right") - 1, 0, windows - 1)
        last = np.clip(np.searchsorted(edges, end[met], side="right") - 1, 0, windows - 1)
        count = last - one + 1
        # The windows of an interval follow each other: one, one + 1, ..., last.
        window = np.repeat(one - (np.cumsum(count) - count), count) + np.arange(count.sum())
        order = np.argsort(window, kind="stable")
        return cls(
            places=np.repeat(met, count)[order],
            first=np.searchsorted(window[order], np.arange(windows + 1)),
        )

    def of_window(self, number: int) -> Times:
        """Intervals that meet a window."""
        return self.places[self.first[number] : self.first[number + 1]]
