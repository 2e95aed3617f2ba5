"""Reading a segment of which only some bytes are here: only what is touched is fetched.

The hashes of a segment ascend, and its trailer *marks* every 4096th of them. So the rows of a hash
interval are known to within 4096 rows before any hash is read, and only the hashes of the
intervals that a task owns are fetched. A segment without marks (format 1) has all its hashes
fetched.

`numpy` must not scan the whole mapped column, since most of it may not be here: searches run
interval by interval, in the hashes that were fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from rechannel.errors import DamagedStateError
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.state.segments.blocks import BlockCheck
from rechannel.state.segments.layout import Layout
from rechannel.state.store import Spans

MARK_EVERY = 4096
"""Rows from one marked hash to the next."""

_WINDOWS_KEPT = 16


def marks_of(hashes: HashArray) -> HashArray:
    """Return the marks of ascending hashes."""
    return np.ascontiguousarray(hashes[::MARK_EVERY], dtype=np.uint64)


Windows = list[tuple[int, int]]
"""Rows [start, stop) of each of several intervals, in order, including empty ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangedRows:
    """Rows of one segment. Every method raises DamagedStateError, MissingFileError, StorageError."""

    layouts: tuple[Layout, ...]
    """Layouts of all columns, the hashes first."""
    hashes: HashArray
    """The whole column; only the parts that `windows` returned are here."""
    marks: HashArray
    """Every 4096th hash."""
    check: BlockCheck
    file: memoryview
    refuse: Callable[[int], DamagedStateError]
    """Returns the error for a damaged block."""
    _windows: dict[Intervals, Windows] = field(default_factory=dict)
    _done: list[npt.NDArray[np.bool_]] = field(default_factory=list)

    def windows(self, where: Intervals) -> Windows:
        """Return the rows of each interval. Their hashes, and that of the following row, are here
        from then on.
        """
        known = self._windows.get(where)
        if known is None:
            known = self._fetched(where)
            if len(self._windows) >= _WINDOWS_KEPT:
                self._windows.clear()
            self._windows[where] = known
        return known

    def search(
        self, asked: HashArray, where: Intervals, side: Literal["left", "right"] = "left"
    ) -> npt.NDArray[np.int64]:
        """Return the first row whose hash is not below each needle, or ("right") is above it.

        Only rows of the needle's interval, and the row after it, are found. asked: shape
        (needles,), ascending, all in the intervals.
        """
        rows = np.zeros(len(asked), dtype=np.int64)
        edges = np.array([lo for lo, _ in where], dtype=np.uint64)
        begins = np.searchsorted(asked, edges).tolist()
        windows = self.windows(where)
        for begin, end, (first, last) in zip(
            begins, [*begins, len(asked)][1:], windows, strict=True
        ):
            if begin < end:
                found = np.searchsorted(self.hashes[first:last], asked[begin:end], side)
                rows[begin:end] = found + first
        return rows

    def touch(self, rows: Spans) -> None:
        """Fetch and check all columns of these rows.

        Soon everything that is needed of a run is here, and finding that out must be cheap: chunks
        of 4096 rows that are complete are remembered.
        """
        if not self._done:
            self._done.append(np.zeros(-(-len(self.hashes) // MARK_EVERY), dtype=np.bool_))
        done = self._done[0]
        first, last = rows[:, 0] // MARK_EVERY, (rows[:, 1] - 1) // MARK_EVERY
        unsure = _any_false(done, first, last)
        if unsure.any():
            self.bring(rows[unsure])
            chunks = np.unique(np.concatenate([first[unsure], last[unsure]]))
            edges = np.stack([chunks, chunks + 1], axis=1) * MARK_EVERY
            done[chunks] = self._all_here(np.minimum(edges, len(self.hashes)))

    def bring(self, rows: Spans) -> int:
        """Fetch and check all columns of these rows. Returns the bytes of their blocks."""
        level = [(layout, rows) for layout in self.layouts]
        met = [np.empty(0, dtype=np.int64)]
        while level:
            met.append(self._bring([span for layout, own in level for span in layout.spans(own)]))
            level = [down for layout, own in level for down in layout.inner(self.file, own)]
        return self.check.total(np.unique(np.concatenate(met)))

    def touch_column(self, index: int) -> None:
        """Fetch and check all rows of one column; the hashes are column 0."""
        everything = np.array([[0, len(self.hashes)]], dtype=np.int64)
        self._bring(list(self.layouts[index].spans(everything)))

    def _fetched(self, where: Intervals) -> Windows:
        rough = self._rough(where)
        padded = np.minimum(rough + np.array([0, 1]), len(self.hashes))
        self._bring(list(self.layouts[0].spans(padded)))
        return [
            self._exact(span, int(first), int(last))
            for span, (first, last) in zip(where, rough, strict=True)
        ]

    def _rough(self, where: Intervals) -> Spans:
        """Return rows between which each interval's first row, and the one after its last, must
        be.
        """
        rows = len(self.hashes)
        if not len(self.marks):
            return np.array([[0, rows]] * len(where.spans), dtype=np.int64).reshape(-1, 2)
        lows = np.array([lo for lo, _ in where], dtype=np.uint64)
        highest = np.array([hi - 1 for _, hi in where], dtype=np.uint64)
        first = np.maximum(np.searchsorted(self.marks, lows) - 1, 0) * MARK_EVERY
        last = np.minimum(np.searchsorted(self.marks, highest, "right") * MARK_EVERY, rows)
        return np.stack([np.minimum(first, last), last], axis=1).astype(np.int64)

    def _exact(self, span: tuple[int, int], first: int, last: int) -> tuple[int, int]:
        part = self.hashes[first:last]
        begin = np.searchsorted(part, np.uint64(span[0]))
        end = np.searchsorted(part, np.uint64(span[1] - 1), "right")
        return first + int(begin), first + int(end)

    def _all_here(self, rows: Spans) -> npt.NDArray[np.bool_]:
        """Return whether all columns of each span of rows were checked."""
        good = self.check.good
        here = np.ones(len(rows), dtype=np.bool_)
        for layout in self.layouts:
            here[here] = self._layout_here(layout, rows[here], good)
        return here

    def _layout_here(
        self, layout: Layout, rows: Spans, good: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        here = np.ones(len(rows), dtype=np.bool_)
        for spans in layout.spans(rows):
            size = self.check.block
            blocks = spans // size
            blocks[:, 1] = np.maximum((spans[:, 1] - 1) // size, blocks[:, 0])
            here &= ~_any_false(good, blocks[:, 0], blocks[:, 1])
        asked = np.flatnonzero(here)  # do not read offsets that were not checked
        for child, inner in layout.inner(self.file, rows[asked]):
            here[asked] &= self._layout_here(child, inner, good)
        return here

    def _bring(self, spans: Sequence[Spans]) -> npt.NDArray[np.int64]:
        """Fetch and check the blocks of byte spans. Returns the blocks."""
        if not spans:
            return np.empty(0, dtype=np.int64)
        blocks = self.check.blocks_of(np.concatenate(spans))
        damaged = self.check.blocks(blocks)
        if damaged is not None:
            raise self.refuse(damaged)
        return blocks


def _any_false(
    flags: npt.NDArray[np.bool_], first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return whether any flag from `first` to `last`, both included, is false. Shape of `first`."""
    below = np.concatenate(([0], np.cumsum(~flags)))
    return np.asarray(
        below[np.minimum(last + 1, len(flags))] > below[np.minimum(first, len(flags))]
    )


def row_spans(rows: npt.NDArray[np.integer] | slice, count: int) -> Spans:
    """Return row numbers, or a slice of `count` rows without a step, as spans."""
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(count)
        return np.array([[start, max(start, stop)]], dtype=np.int64)
    starts = rows.astype(np.int64, copy=False)
    return np.stack([starts, starts + 1], axis=1)
