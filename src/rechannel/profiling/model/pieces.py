"""A trace in pieces: consecutive windows, with all rows that say what happened in them.

Pieces are analysed independently, anywhere and in any order, so an analysis holds a few of about
`PIECE_ROWS` rows each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rechannel.model.buffers import ragged
from rechannel.profiling.model.timeline import Timeline, timeline
from rechannel.profiling.model.trace import Names, Times, Trace
from rechannel.profiling.model.window_graph import WindowGraph, window_graph
from rechannel.profiling.model.windows import EvenWindows, WindowSpans, fitted

PIECE_ROWS = 1 << 18
"""Approximate number of activities and messages of a piece; a single window may have more."""


class TraceParts(Protocol):
    """A trace that has been cut."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Trace: ...


class TraceSource(Protocol):
    """Where a trace comes from, whatever its size."""

    @property
    def names(self) -> Names:
        """The names that the indices of the trace stand for."""
        ...

    @property
    def span(self) -> tuple[int, int]:
        """Beginning and end, ns."""
        ...

    @property
    def about(self) -> str:
        """The size of the trace, in words."""
        ...

    def before(self, times: Times) -> npt.NDArray[np.float64]:
        """Estimate how many activities and messages lie before each of some times."""
        ...

    def moments(self) -> Iterator[Times]:
        """Yield, in parts and in any order, the times at which something begins or ends, ns."""
        ...

    def cut(self, cuts: Times) -> TraceParts:
        """Cut the trace. Part i has everything that determines [cuts[i], cuts[i + 1]], and may
        have more.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """Windows `first`, `first` + 1, ... of a trace."""

    trace: Trace
    """Everything that determines what happened in the windows."""
    span: tuple[int, int]
    """Beginning and end of the whole trace, ns."""
    threshold: int
    """Gaps shorter than this are given to their neighbours, ns."""
    first: int
    windows: WindowSpans
    final: bool
    """Whether something that begins at the end of these windows is in no later window."""

    @property
    def line(self) -> Timeline:
        """The timeline; valid within the windows only."""
        return timeline(self.trace, threshold=self.threshold, span=self.span)

    def graphs(self) -> Iterator[tuple[int, WindowGraph]]:
        """Yield the number and the graph of every window."""
        line, went = self.line, self.trace.messages
        edges = np.array([*(start for start, _ in self.windows), self.windows[-1][1]])
        spans = _Cut.of(line.start, line.end, edges, final=self.final)
        sent = _Cut.of(went.sent, went.received, edges, final=self.final)
        for i, (start, end) in enumerate(self.windows):
            mine, sent_then = line.take(spans.of_window(i)), went.take(sent.of_window(i))
            yield self.first + i, window_graph(mine, sent_then, start, end)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pieces:
    """All pieces of a trace; a piece is made when it is asked for."""

    source: TraceSource
    windows: WindowSpans
    threshold: int
    starts: Sequence[int]
    """The first window of every piece."""
    parts: TraceParts = field(repr=False)
    notes: Sequence[str] = ()
    """How the windows differ from what was asked for, as sentences."""

    @classmethod
    def of(
        cls, source: TraceSource, windows: WindowSpans, threshold: int = 0, rows: int | None = None
    ) -> Pieces:
        """Cut a trace into pieces of about `rows` rows, `PIECE_ROWS` by default.

        Even windows are fitted to the trace: see `windows.py`.
        """
        fit = fitted(windows, source.moments())
        windows = fit.windows
        begins = np.array([start for start, _ in windows], dtype=np.int64)
        # A worker that waits has a span in every window.
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
            notes=fit.notes,
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
        """Return the piece that contains a window."""
        return self[int(np.searchsorted(self.starts, number, side="right")) - 1]


def windows_of(span: tuple[int, int], length: int) -> WindowSpans:
    """Return windows of `length` ns from the beginning of a span to its end; the last may be
    shorter. They are made as they are met.
    """
    return EvenWindows(span, length)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cut:
    """Which intervals meet which windows."""

    places: Times
    """Indices of intervals, ordered by window."""
    first: Times
    """First of these for every window, and the end."""

    @classmethod
    def of(cls, start: Times, end: Times, edges: Times, *, final: bool) -> _Cut:
        """Assign intervals to windows, keeping their order.

        An interval that ends where a window begins is in the previous window, too. edges: starts
        of windows, and the last end. final: whether an interval that begins at that end is in the
        last window.
        """
        windows = len(edges) - 1
        met = np.flatnonzero((end >= edges[0]) & ((start < edges[-1]) | final))
        one = np.clip(np.searchsorted(edges, start[met], side="right") - 1, 0, windows - 1)
        last = np.clip(np.searchsorted(edges, end[met], side="right") - 1, 0, windows - 1)
        count = last - one + 1
        window = ragged(one, count)
        order = np.argsort(window, kind="stable")
        return cls(
            places=np.repeat(met, count)[order],
            first=np.searchsorted(window[order], np.arange(windows + 1)),
        )

    def of_window(self, number: int) -> Times:
        """Return the intervals that meet a window."""
        return self.places[self.first[number] : self.first[number + 1]]
