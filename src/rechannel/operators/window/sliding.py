"""Sliding windows: state is kept in panes, and a window is computed from its panes when it is complete.

If every aggregate can be subtracted from a total, `incremental` maintains totals instead: the cost of a window then
depends on the panes that enter and leave it, not on all panes in it.

The length of a pane is the greatest common divisor of the windows' length and the distance between their ends. So a
window consists of whole panes, and a row is in one pane, however many windows hold it. All panes of a key are in one
task. A pane is gone when the last window that holds it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import (
    from_numpy,
    group_rows,
    nested_order,
    sort_index,
    take,
)
from rechannel.kernels.protocol.capabilities import Advanced, Emitted, Incremental, Work
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.aggregate.running_totals import Running
from rechannel.operators.window.incremental import IncrementalWindows
from rechannel.operators.window.logic import WindowLogic

AT_ONCE = 1 << 22
"""Panes, each counted in every window that it is in, of which windows are made in one go."""

_FIRST, _LAST = -(1 << 62), 1 << 62
"""Event times between which windows are counted: the watermarks before any row and after the last are beyond them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SlidingLogic(WindowLogic, Incremental):
    """Aggregates of the rows of a key in overlapping windows: a `StatefulLogic`. State is kept pane by pane.

    `size_us` is the length of a pane. Windows are emitted when they are complete.
    """

    length_us: int
    """Length of a window."""
    every_us: int
    """From one window's end to the next."""
    offset_us: int = 0
    """A window begins at this time after 1970."""

    @cached_property
    def running(self) -> Running | None:
        """How totals are kept up, where what leaves a window can be taken out of them."""
        parts = self.inner.parts
        if parts is None:
            return None
        keys = pa.schema(list(self.key_schema)[:-1])
        return Running(keys=keys, state=self.state_schema, parts=parts)

    @property
    def keeps_totals(self) -> bool:
        """Whether what leaves a window can be taken out of its totals."""
        return self.running is not None

    def advance(self, work: Work) -> Advanced:
        """Emit complete windows out of the totals. Raises TimestepError, and ValueError without totals."""
        if self.running is None:
            msg = f"operator {work.program.operator!r} keeps no totals"
            raise ValueError(msg)
        windows = IncrementalWindows(self, self.running, work)
        emitted, edit = windows.run(work.arrivals, work.applied, work.writer)
        return Advanced(emitted=emitted, edit=edit, rows_read=windows.rows_read)

    @property
    def hashed(self) -> int:
        """All panes of a key are in one task."""
        return len(self.key_schema) - 1

    def _completes(self, clock: Clock) -> bool:
        """Whether a window may become complete."""
        return bool(self.complete(clock))

    def row_order(self, keys: Columns) -> IntArray:
        """Return the starts of the panes."""
        return micros(keys[-1])[0]

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether all windows with panes that end then are complete."""
        return timer + self.length_us - self.size_us <= clock.watermark

    @property
    def lasts_us(self) -> int:
        """As long as a window, and a pane."""
        return self.size_us + self.length_us

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Panes of the windows that have become complete."""
        ends = self.complete(clock)
        return (ends.start - self.length_us, ends[-1]) if ends else None

    def complete(self, clock: Clock) -> range:
        """Ends of the windows that have become complete. Most of them may have no rows."""
        first = self._end_after(max(clock.before, _FIRST))
        last = self._end_after(min(clock.watermark, _LAST)) - self.every_us
        return range(first, last + 1, self.every_us)

    def last_end(self, time: int) -> int:
        """The end of the last window that is complete at a time."""
        return self._end_after(max(time, _FIRST)) - self.every_us

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Windows made of panes: every pane goes into its windows, then the panes of a key and a window meet."""
        parts = list(self._fired(keys, state, hashes, self.complete(clock)))
        if len(parts) == 1:
            return parts[0]
        batch = pa.concat_batches([rows for rows, _ in parts])
        places = np.concatenate([where for _, where in parts])
        # Stable: of one hash, windows of an earlier part come first.
        order = sort_index(places)
        columns = take(batch.columns, order)
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema), places[order]

    def _fired(
        self, keys: Columns, state: Columns, hashes: HashArray, ends: range
    ) -> Iterator[Emitted]:
        """Windows by their ends: some of them at a time where panes are in many."""
        panes = self.timer_of(keys, state)
        # Its first window ends with the pane or up to a distance later; others follow as long as it is in them. Only
        # those that are complete now are looked at.
        begin = np.maximum(panes + (ends.start - panes) % self.every_us, ends.start)
        last = np.minimum(panes + self.length_us - self.size_us, ends[-1])
        count = np.maximum(0, (last - begin) // self.every_us + 1)
        if count.sum() > AT_ONCE and last.max() - begin.min() >= self.every_us:
            low, high, every = int(begin.min()), int(last.max()), self.every_us
            middle = low + ((high - low) // every + 1) // 2 * every
            for some in (range(low, middle, every), range(middle, high + 1, every)):
                inside = (panes > some[0] - self.length_us) & (panes <= some[-1])
                held = np.flatnonzero(inside)
                yield from self._fired(take(keys, held), take(state, held), hashes[held], some)
            return
        rows = np.repeat(np.arange(len(panes)), count)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        window = begin[rows] + nth * self.every_us
        order = nested_order(hashes[rows], window)
        yield self._met(keys, state, hashes, rows[order], window[order])

    def shown(self, keys: Columns, state: Columns, hashes: HashArray, ends: IntArray) -> Emitted:
        """Windows of which the state is known. keys: without the window; ends: of the windows."""
        order = nested_order(hashes, ends)
        return self._met([*keys, keys[0]], state, hashes, order, ends[order])

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Panes, as state is shown."""
        return self._made(keys, state, self.timer_of(keys, state), self.size_us)

    def _met(
        self,
        keys: Columns,
        state: Columns,
        hashes: HashArray,
        rows: IntArray,
        window: IntArray,
    ) -> Emitted:
        """Panes of one key and window merged. rows: of panes, sorted by hash and window."""
        names = [*take(keys[:-1], rows), from_numpy(np.ascontiguousarray(window), pa.int64())]
        places = hashes[rows]
        groups, untangled = group_rows(places, names, window)
        if untangled is not None:
            names, places, rows = take(names, untangled), places[untangled], rows[untangled]
        merged = self.inner.merged_states(take(state, rows), groups)
        names, places = take(names, groups.starts), places[groups.starts]
        ends = names[-1].to_numpy(zero_copy_only=False)
        return self._made(names, merged, ends), places

    def _made(
        self, keys: Columns, state: Columns, ends: IntArray, length: int | None = None
    ) -> pa.RecordBatch:
        """Keys, start and end of windows (or panes), finished aggregates."""
        length = self.length_us if length is None else length
        starts = from_numpy(ends - length, pa.int64()).cast(MICROS)
        stops = from_numpy(np.ascontiguousarray(ends), pa.int64()).cast(MICROS)
        inner = self.inner.finish([*keys[:-1], starts], state)
        width = len(keys)
        columns = [*inner.columns[:width], stops, *inner.columns[width:]]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def _gone(self, starts: pa.Array, watermark: int) -> Mask:
        """Whether the last window with a pane is complete by a watermark."""
        times, nulls = micros(starts)
        pane = times + self.size_us
        last = pane + (self.offset_us + self.length_us - pane) % self.every_us
        last += (pane + self.length_us - self.size_us - last) // self.every_us * self.every_us
        gone: Mask = last <= watermark
        return gone if nulls is None else gone | nulls

    def _end_after(self, time: int) -> int:
        """The first window's end after a time."""
        return time + self.every_us - (time - self.offset_us - self.length_us) % self.every_us
