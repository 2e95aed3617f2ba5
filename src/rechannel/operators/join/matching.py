"""Which rows of two streams match: stored rows and rows that came, of the keys of a timestep.

A pair is made in the timestep of the later of its rows, so one of its rows came in this timestep. If times matter and
keys have many rows, the rows that are near are found by time; else all pairs are made and then filtered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import Stacked, last_not_after, nested_order
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT
from rechannel.model.buffers import IntArray, Mask, ragged
from rechannel.model.eventtime import ENDED, NEVER
from rechannel.model.hashspace import HashArray

FEW = 8
"""Up to this number of pairs per row, all pairs are made and then filtered; of more, near ones are searched."""

Near = tuple[int, int]
"""By how much the right row's time is beyond the left one's in a match: at least, and at most. Microseconds."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool:
    """Stored rows followed by the rows that came, of the keys of a timestep."""

    keys: Columns
    """Every key once."""
    hashes: HashArray
    """Of every key."""
    void: Mask
    """Keys that match nothing."""
    owners: IntArray
    """Number of every row's key."""
    slots: Stacked
    """Columns of every row."""
    sides: IntArray
    """Of every row."""
    times: IntArray
    """Of every row, if times matter."""
    numbers: IntArray
    """Row order key of every row."""
    matched: Mask
    """Rows that had a match before; none in joins that do not store it."""
    count: int
    """How many rows were stored; all after them came in this timestep."""
    late: Mask
    """Rows that came too late."""

    @property
    def came(self) -> Mask:
        """Return which rows came in this timestep."""
        return np.arange(len(self.owners)) >= self.count

    @property
    def held(self) -> Mask:
        """Return which rows were stored."""
        return ~self.came

    def pairs(self, near: Near | None, *, once: bool) -> tuple[IntArray, IntArray]:
        """Return rows of the left and of the right side that match and of which one came now, by key.

        near: None = times do not matter. once: return left rows that match, each once, and no right ones.
        """
        usable = ~self.late & ~self.void[self.owners]
        left, right = (self._side(usable, side) for side in (LEFT, RIGHT))
        if once and near is None:
            return left[self._meets(left, right)], right[:0]
        every = np.bincount(self.owners[left], minlength=len(self.hashes))
        there = np.bincount(self.owners[left[left < self.count]], minlength=len(self.hashes))
        owners = self.owners[right]
        # The stored left rows of a key come before those that came. A right row that came meets all of them, a stored
        # one only those that came.
        skip = np.where(right >= self.count, 0, there[owners])
        times = every[owners] - skip
        if near is not None and int(times.sum()) > FEW * (len(left) + len(right)):
            if once:
                return left[self._meets_near(near, left, right)], right[:0]
            return self._near(near, left, right)
        begin = np.cumsum(every) - every
        ours, others = left[ragged(begin[owners] + skip, times)], np.repeat(right, times)
        if near is not None:
            beyond = self.times[others] - self.times[ours]
            within = np.flatnonzero((beyond >= near[0]) & (beyond <= near[1]))
            ours, others = ours[within], others[within]
        if once:
            met = np.zeros(len(self.owners), dtype=np.bool_)
            met[ours] = True
            return left[met[left]], right[:0]
        return ours, others

    def _near(self, near: Near, left: IntArray, right: IntArray) -> tuple[IntArray, IntArray]:
        """Return the pairs of some rows, found by time. The cost follows the number of pairs, not of rows per key."""
        known, first, last = self._stretches(left, right, near)
        sizes = last - first
        ours = known[ragged(first, sizes)]
        # A right row's stretches follow each other: of stored left rows, and of new ones.
        asked = np.repeat(np.concatenate([np.arange(len(right))] * 2), sizes)
        order = nested_order(asked, ours)
        return ours[order], right[asked[order]]

    def _meets(self, left: IntArray, right: IntArray) -> Mask:
        """Return which left rows have a right one of which one of the two came now. Times do not matter."""
        every = np.bincount(self.owners[right], minlength=len(self.hashes))
        came = np.bincount(self.owners[right[right >= self.count]], minlength=len(self.hashes))
        owners = self.owners[left]
        met: Mask = np.where(left >= self.count, every[owners], came[owners]) > 0
        return met

    def _meets_near(self, near: Near, left: IntArray, right: IntArray) -> Mask:
        """Return which left rows have a right one near enough of which one of the two came now."""
        # Seen from the left row, the right one's time is as far off in the other direction.
        _, first, last = self._stretches(right, left, (-near[1], -near[0]))
        there, came = (last > first).reshape(2, -1)
        met: Mask = there | came
        return met

    def _stretches(
        self, known: IntArray, asking: IntArray, near: Near
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the known rows in an order, and the range of it [first, last) that each asking row matches.

        Known rows match if they have the key of the asking row and their time is before its own by at least near[0] and
        at most near[1]. There are two ranges per asking row: first those of stored rows for all asking rows, then
        those of rows that came. A stored row matches only rows that came.
        """
        halves = 2 * self.owners + self.came
        known = known[nested_order(halves[known], self.times[known])]
        values, asked = (halves[known], self.times[known]), self.times[asking]
        halves = np.concatenate([2 * self.owners[asking], 2 * self.owners[asking] + 1])
        first, last = (
            1 + last_not_after(*values, halves, np.concatenate([border, border]))
            for border in (_before(_before(asked, near[1]), 1), _before(asked, near[0]))
        )
        first[: len(asking)][asking < self.count] = 0
        last[: len(asking)][asking < self.count] = 0
        return known, first, last

    def superfluous(self) -> Mask:
        """Return a mask of arrived right rows whose key already has an earlier right row.

        If times do not matter, one row per key suffices.
        """
        out = np.zeros(len(self.owners), dtype=np.bool_)
        right = self._side(~self.late, RIGHT)
        out[right[1:]] = self.owners[right[1:]] == self.owners[right[:-1]]
        return out & self.came

    def _side(self, usable: Mask, side: int) -> IntArray:
        rows = np.flatnonzero(usable & (self.sides == side))
        return rows[np.argsort(self.owners[rows], kind="stable")]


def _before(times: IntArray, by: int) -> IntArray:
    """Subtract from times; a result beyond all times is the first or last of them."""
    if by >= 0:
        return np.maximum(times, NEVER + by) - by
    return np.minimum(times, ENDED + by) - by
