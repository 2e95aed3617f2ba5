"""Panes by the times at which they end: those of all keys, or of some, out of what is fresh and out of sorted runs.

Runs whose panes end at other times are not opened. Of the others, the panes of some keys are found by bisection: cost
follows the keys that are asked for and the panes found, not the panes that there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.lsm.hash_filter import candidates
from rechannel.kernels.lsm.lookup import OpenRun, within
from rechannel.kernels.lsm.merge import Rows, everything, merge_rows, slices_of
from rechannel.kernels.lsm.runs import OpenRuns
from rechannel.kernels.protocol.migrate import converted
from rechannel.model.buffers import IntArray, ragged
from rechannel.model.hashspace import HashArray, Intervals

if TYPE_CHECKING:
    from rechannel.operators.window.sliding import SlidingLogic


@dataclass(frozen=True, eq=False, kw_only=True)
class Panes:
    """Panes of one task in one timestep. fresh: changed in it. runs: as of the timestep before. own: hashes.

    read: receives the number of rows that were read.
    """

    logic: SlidingLogic
    fresh: Rows
    runs: OpenRuns
    own: Intervals
    read: Callable[[int], None]

    def most(self, after: int, until: int) -> float:
        """Estimate from above how many panes end in (after, until], without opening a run."""
        return len(self.fresh) + self.runs.rows_waiting(after, until)

    def between(self, after: int, until: int) -> Rows:
        """Return all panes that end in (after, until]."""
        parts = [self._ending(self.fresh, after, until)]
        for _, run in self.runs.waiting(after, until):
            for piece in slices_of(run, self.own):
                self.read(len(piece))
                parts.append(self._ending(piece, after, until))
        return self._merged(parts)

    def of(self, hashes: HashArray, after: int, until: int) -> Rows:
        """Return the panes that end in (after, until], of keys with these hashes (ascending and distinct)."""
        fresh = self._ending(self.fresh, after, until)
        place = np.minimum(np.searchsorted(hashes, fresh.hashes), max(0, len(hashes) - 1))
        parts = [fresh.where(hashes[place] == fresh.hashes)] if len(hashes) else []
        for run, opened in self.runs.waiting(after, until):
            whole = run.due is not None and after < run.due[0] and run.due[1] <= until
            begins = after - self.logic.size_us, until - self.logic.size_us
            piece = self._found(opened, hashes, None if whole else begins)
            if piece is not None:
                self.read(len(piece))
                parts.append(piece)
        return self._merged(parts or [fresh])

    def _ending(self, rows: Rows, after: int, until: int) -> Rows:
        ends = self.logic.timer_of(rows.columns[: len(self.logic.key_schema)], [])
        wanted = (ends > after) & (ends <= until)
        return rows.where(wanted if rows.dropped is None else wanted & ~rows.dropped)

    def _merged(self, parts: list[Rows]) -> Rows:
        """The newest of every pane, sorted by hash and time."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        width = len(self.logic.key_schema)
        return merge_rows(parts, width, everything, bottom=True, row_order=self.logic.row_order)

    def _found(
        self, run: OpenRun, hashes: HashArray, begins: tuple[int, int] | None
    ) -> Rows | None:
        """Panes of some keys in one run that begin in (after, until], or all of them; None = it has none."""
        segment = run.segment
        needles = within(run, hashes, np.arange(len(hashes), dtype=np.int64))
        if not len(needles) or not segment.rows:
            return None
        asked = hashes[needles]
        maybe = None if run.base else candidates(segment, asked, run.clip)
        if maybe is not None:
            asked = asked[maybe]
        first = segment.search(asked, run.clip)
        last = segment.search(asked, run.clip, "right")
        if begins is not None:
            after, until = begins
            first = self._behind(run, first, last, after)
            last = self._behind(run, first, last, until, near=True)
        count = last - first
        rows = ragged(first, count)
        if not len(rows):
            return None
        segment.touch(rows)
        columns = take([segment.column(i) for i in range(len(segment.schema))], rows)
        dropped = None if segment.dropped is None else segment.dropped[rows]
        if run.migrations:
            columns, dropped = converted(run.migrations, columns, dropped, origin=run.origin)
        return Rows(np.repeat(asked, count), columns, dropped)

    def _behind(
        self, run: OpenRun, first: IntArray, last: IntArray, time: int, *, near: bool = False
    ) -> IntArray:
        """Return the first rows of [first, last) that begin after a time, bisecting for all of them at once.

        near: they are among the next few.
        """
        segment, low, high = run.segment, first.copy(), last.copy()
        starts = segment.column(len(self.logic.key_schema) - 1).view(pa.int64())
        values: IntArray = starts.to_numpy(zero_copy_only=True)
        open_ = np.flatnonzero(low < high)
        step = 1 if near else 0
        while len(open_):
            middle = (low[open_] + high[open_]) // 2
            if step:
                # One row, then two more, then four: what is near is found in fewer steps.
                middle, step = np.minimum(middle, low[open_] + step - 1), 2 * step
            segment.touch(middle)
            below = values[middle] <= time
            low[open_[below]] = middle[below] + 1
            high[open_[~below]] = middle[~below]
            open_ = open_[low[open_] < high[open_]]
        return low
