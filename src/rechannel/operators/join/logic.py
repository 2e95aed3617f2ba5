"""`join`: rows of two streams that have the same key and are near each other in event time.

State: the rows of both sides, as long as a matching row may still arrive. A pair is emitted in the timestep of the
later of its two rows. A row of an outer side without a match is emitted when event time shows that none can arrive; so
is a row of an anti join. Null keys match nothing.

A row is *late* if it is earlier than the watermark of the previous timestep (in windows: if its window was complete by
then). Of two rows that are not late, the earlier one is still stored when the later one arrives: a row is kept until
the watermark has passed everything that it could match, and a row that the watermark has passed is late. So the pairs
are those of a batch over all rows that are not late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import (
    Stacked,
    from_numpy,
    last_not_after,
    nested_order,
    sort_index,
    take,
)
from rechannel.kernels.protocol.bases import held_by
from rechannel.kernels.protocol.capabilities import Emitted, LookupRange
from rechannel.kernels.protocol.logic import Changed, OperatorInput, OperatorOutput
from rechannel.kernels.protocol.two_sides import (
    LEFT,
    RIGHT,
    ROW,
    Side,
    first_of,
    row_numbers,
    sides_of,
    void_of,
)
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray, Mask, ragged
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.join.two_inputs import TwoSided, nullable
from rechannel.operators.window.logic import END, completes

MATCHED = pa.field("matched", pa.bool_(), False)


FEW = 8
"""Up to this number of pairs per row, all pairs are made and then filtered; of more, near ones are searched."""

OUTER = {"left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
"""Sides whose rows are shown without a match, and stay for others when they have one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinLogic(TwoSided):
    """Pairs of rows: a `StatefulLogic`."""

    keys: pa.Schema
    """The common keys; with windows, the last one is the start of the window."""
    left: Side
    """Columns of the left side."""
    right: Side
    """Columns of the right side."""
    slots: pa.Schema
    """Columns that both sides share while they travel and are stored."""
    how: str
    """inner, left, right, full, semi or anti."""
    least_us: int | None = None
    """Smallest right time - left time of a match; None = times do not matter."""
    most_us: int | None = None
    """Largest right time - left time of a match; None = times do not matter."""
    window_us: int | None = None
    """Length of the windows; None = there are none."""
    offset_us: int | None = None
    """A window begins at this time after 1970; None = windows begin at other times too."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""

    @property
    def state_schema(self) -> pa.Schema:
        """Columns of the row, and whether it has been shown, where that matters."""
        return self.slots.append(MATCHED) if self.how in OUTER else self.slots

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, columns of the left side, columns of the right one."""
        fields = [*self.keys, *([pa.field(END, MICROS, False)] if self.window_us else [])]
        if self.how in {"semi", "anti"}:
            return pa.schema([*fields, *self.left.fields])
        left = nullable(self.left.fields) if self.how in {"right", "full"} else self.left.fields
        right = nullable(self.right.fields) if self.how in {"left", "full"} else self.right.fields
        return pa.schema([*fields, *left, *right])

    def lookup_range(self, values: Columns, groups: Groups) -> LookupRange | None:
        """Rows of the side that those of a key that came can match; before one of a semi or anti join, both sides."""
        side = values[0].to_numpy(zero_copy_only=False)
        came = [np.zeros(groups.count, dtype=np.bool_) for _ in (LEFT, RIGHT)]
        for number in (LEFT, RIGHT):
            came[number][groups.ids[side == number]] = True
        both = came[RIGHT] if self.how in {"semi", "anti"} else came[LEFT] & came[RIGHT]
        return (
            np.where(came[RIGHT] | both, first_of(LEFT), first_of(RIGHT)),
            np.where(came[LEFT] | both, first_of(RIGHT + 1), first_of(RIGHT)),
        )

    # Time -------------------------------------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        """Whether event time ends what rows can match."""
        return self.window_us is not None or self.least_us is not None

    @property
    def lag_us(self) -> int:
        """Rows leave when another one comes, or when none will: as late as that can be."""
        if self.window_us is not None:
            return self.window_us
        if self.least_us is None or self.most_us is None:
            return 0
        return max(self.most_us, -self.least_us, 0) + 1

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Event time from which on nothing can match."""
        if not self.bounded:
            return None
        return self._dues(keys, state, sides_of(self.row_order(keys)))

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Rows that may still be matched."""
        due = self.timer_of(keys, state)
        return None if due is None else due > clock.watermark

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether nothing can match rows of then."""
        return timer <= clock.watermark

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Rows that have found none, and will not, are shown then."""
        if not self.bounded or self.how in {"inner", "semi"}:
            return None
        if self.window_us is not None and not completes(clock, self.window_us, self.offset_us):
            return None
        return clock.before, clock.watermark

    def _dues(self, keys: Columns, slots: Columns, sides: IntArray) -> IntArray:
        if self.window_us is not None:
            return micros(keys[len(self.keys) - 1])[0] + self.window_us
        times = self._times(slots, sides)
        # A tombstone that was migrated has no time: it goes when it is merged with its row.
        untold = times == NEVER
        assert self.least_us is not None and self.most_us is not None  # noqa: S101, PT018 - `bounded`
        reach = np.where(sides == LEFT, self.most_us, -self.least_us)
        dues: IntArray = np.where(untold, ENDED, np.where(untold, 0, times) + reach + 1)
        return dues

    # Rows -------------------------------------------------------------------------------------------------------

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Pairs of what came with what was there, and with each other."""
        pool = _Pool.of(self, arrivals)
        left, right = pool.pairs(self)
        output, owners = self._matches(pool, left, right)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=output,
            output_hashes=arrivals.hashes[owners],
            late=self._late(arrivals, pool.late[pool.count :]),
            changed=self._changed(pool, left, right),
        )

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Rows that have found none."""
        sides = sides_of(self.row_order(keys))
        alone = np.isin(sides, OUTER.get(self.how, (LEFT,)))
        if self.how in OUTER:
            alone &= ~state[-1].to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(alone)
        names, slots, sides = take(keys[: len(self.keys)], rows), take(state, rows), sides[rows]
        if self.how == "anti":
            return self._shown(names, self.left.columns(slots)), hashes[rows]
        return self._shown(names, self._apart(slots, sides)), hashes[rows]

    def _matches(
        self, pool: _Pool, left: IntArray, right: IntArray
    ) -> tuple[pa.RecordBatch, IntArray]:
        """What is shown of pairs, and the number of each row's key, ascending."""
        if self.how == "anti":
            left = left[:0]
        if self.how in {"semi", "anti"}:
            columns = pool.slots.take(left, self.left.slots)
        else:
            columns = [
                *pool.slots.take(left, self.left.slots),
                *pool.slots.take(right, self.right.slots),
            ]
        owners = pool.owners[left]
        return self._shown(take(pool.keys, owners), columns), owners

    def _shown(self, keys: Columns, columns: Columns) -> pa.RecordBatch:
        if self.window_us is not None:
            ends = micros(keys[-1])[0] + self.window_us
            keys = [*keys, from_numpy(ends, pa.int64()).cast(MICROS)]
        return pa.RecordBatch.from_arrays([*keys, *columns], schema=self.output_schema)

    def _changed(self, pool: _Pool, left: IntArray, right: IntArray) -> Changed:
        """Rows that came and stay, and rows that were there and are so no more."""
        once = self.how in {"semi", "anti"}
        met = np.zeros(len(pool.owners), dtype=np.bool_)
        met[left] = True
        met[right] = True
        stays = pool.came & ~pool.late & (~pool.void[pool.owners] | self._outer(pool.sides))
        dropped = None
        if once:
            stays &= ~(met & (pool.sides == LEFT))
            dropped = pool.held & met & (pool.sides == LEFT)
            if self.least_us is None:
                stays &= ~pool.superfluous()
            rows = np.flatnonzero(stays | dropped)
            dropped = dropped[rows] if dropped.any() else None
        elif self.how in OUTER:
            stays |= pool.held & met & ~pool.matched & self._outer(pool.sides)
            rows = np.flatnonzero(stays)
        else:
            rows = np.flatnonzero(stays)
        owners = pool.owners[rows]
        hashes, numbers = pool.hashes[owners], pool.numbers[rows]
        order = sort_index(hashes, numbers)
        rows, owners = rows[order], owners[order]
        state = pool.slots.take(rows)
        if self.how in OUTER:
            state.append(pa.array(met[rows] | pool.matched[rows]))
        return Changed(
            hashes=hashes[order],
            columns=[*take(pool.keys, owners), from_numpy(numbers[order], ROW.type), *state],
            dropped=None if dropped is None else dropped[order],
        )

    def _outer(self, sides: IntArray) -> Mask:
        """Rows that are shown without a match."""
        found: Mask = np.isin(sides, (LEFT,) if self.how == "anti" else OUTER.get(self.how, ()))
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class _Pool:
    """Stored rows followed by new rows, of the keys of a timestep.

    keys, hashes: of every key. void: keys that match nothing. owners: number of every row's key. slots, sides, times,
    numbers, matched: of every row. count: how many were there. late: rows that came too late.
    """

    keys: Columns
    hashes: HashArray
    void: Mask
    owners: IntArray
    slots: Stacked
    sides: IntArray
    times: IntArray
    numbers: IntArray
    matched: Mask
    count: int
    late: Mask

    @classmethod
    def of(cls, logic: JoinLogic, arrivals: OperatorInput) -> _Pool:
        """Put the two together."""
        held = held_by(arrivals)
        came = arrivals.values[0].to_numpy(zero_copy_only=False).astype(np.int64)
        fresh = row_numbers(came, arrivals.timestep, arrivals.groups)
        width, count = len(logic.slots), len(held.owners)
        there = logic.row_order(held.keys)
        numbers = np.concatenate([there, fresh])
        sides = sides_of(numbers)
        old, new = held.state[:width], arrivals.values[1:]
        timed = logic.least_us is not None
        times = np.zeros(len(sides), dtype=np.int64)
        if timed:
            parts = ((old, sides[:count]), (new, sides[count:]))
            times = np.concatenate([logic._times(slots, of) for slots, of in parts])
        owners = np.concatenate([held.owners, arrivals.groups.ids])
        late = np.zeros(len(owners), dtype=np.bool_)
        if timed:
            late[count:] = times[count:] < max(arrivals.clock.before, NEVER + 1)
        elif logic.window_us is not None:
            ends, nulls = micros(arrivals.keys[-1])
            gone = ends + logic.window_us <= arrivals.clock.before
            gone = gone if nulls is None else gone | nulls
            late[count:] = gone[arrivals.groups.ids]
        matched = np.zeros(len(owners), dtype=np.bool_)
        if logic.how in OUTER and count:
            matched[:count] = held.state[-1].to_numpy(zero_copy_only=False)
        return cls(
            keys=arrivals.keys,
            hashes=arrivals.hashes,
            void=void_of(arrivals.keys),
            owners=owners,
            slots=Stacked(old, new, count),
            sides=sides,
            times=times,
            numbers=numbers,
            matched=matched,
            count=count,
            late=late,
        )

    @property
    def came(self) -> Mask:
        """Rows of this timestep."""
        return np.arange(len(self.owners)) >= self.count

    @property
    def held(self) -> Mask:
        """Rows that were there."""
        return ~self.came

    def pairs(self, logic: JoinLogic) -> tuple[IntArray, IntArray]:
        """Rows of the left and of the right side that match and of which one came now, by key.

        Of a semi or anti join: left rows that match, each once, and no right ones.
        """
        usable = ~self.late & ~self.void[self.owners]
        left, right = (self._side(usable, side) for side in (LEFT, RIGHT))
        once, near = logic.how in {"semi", "anti"}, _bounds(logic)
        if once and near is None:
            return left[self._meets(left, right)], right[:0]
        every = np.bincount(self.owners[left], minlength=len(self.hashes))
        there = np.bincount(self.owners[left[left < self.count]], minlength=len(self.hashes))
        owners = self.owners[right]
        # Of a key, the left rows that were there lie in front of those that came: a right row that came meets all of
        # them, one that was there the latter.
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

    def _near(
        self, near: tuple[int, int], left: IntArray, right: IntArray
    ) -> tuple[IntArray, IntArray]:
        """The pairs of some rows, found by time: cost follows those that match, however many rows a key has."""
        known, first, last = self._stretches(left, right, near)
        sizes = last - first
        ours = known[ragged(first, sizes)]
        # A right row's stretches follow each other: of stored left rows, and of new ones.
        asked = np.repeat(np.concatenate([np.arange(len(right))] * 2), sizes)
        order = nested_order(asked, ours)
        return ours[order], right[asked[order]]

    def _meets(self, left: IntArray, right: IntArray) -> Mask:
        """Which left rows have a right one, where time does not matter, and one of the two came now."""
        every = np.bincount(self.owners[right], minlength=len(self.hashes))
        came = np.bincount(self.owners[right[right >= self.count]], minlength=len(self.hashes))
        owners = self.owners[left]
        met: Mask = np.where(left >= self.count, every[owners], came[owners]) > 0
        return met

    def _meets_near(self, near: tuple[int, int], left: IntArray, right: IntArray) -> Mask:
        """Which left rows have a right one near enough, and one of the two came now."""
        # Seen from the left row, the right one's time is as far off in the other direction.
        _, first, last = self._stretches(right, left, (-near[1], -near[0]))
        there, came = (last > first).reshape(2, -1)
        met: Mask = there | came
        return met

    def _stretches(
        self, known: IntArray, asking: IntArray, near: tuple[int, int]
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Known rows in an order, and of every asking row where there those of its key begin and end whose time is
        before its own by at least near[0] and at most near[1]: twice, of rows that were there, and of those that came.

        What was there asks only for what came.
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
        """Rows of the right side that came when there was one of the key: which one is there does not matter."""
        out = np.zeros(len(self.owners), dtype=np.bool_)
        right = self._side(~self.late, RIGHT)
        out[right[1:]] = self.owners[right[1:]] == self.owners[right[:-1]]
        return out & self.came

    def _side(self, usable: Mask, side: int) -> IntArray:
        rows = np.flatnonzero(usable & (self.sides == side))
        return rows[np.argsort(self.owners[rows], kind="stable")]


def _before(times: IntArray, by: int) -> IntArray:
    """Times less something; what would be beyond all times is the first or last of them."""
    if by >= 0:
        return np.maximum(times, NEVER + by) - by
    return np.minimum(times, ENDED + by) - by


def _bounds(logic: JoinLogic) -> tuple[int, int] | None:
    """By how much the right row's time is beyond the left one's, at least and at most; None = any."""
    if logic.least_us is None or logic.most_us is None:
        return None
    return logic.least_us, logic.most_us
