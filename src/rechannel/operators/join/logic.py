"""`join`: rows of two streams that have the same key and are near each other in event time.

State: the rows of both sides, as long as a matching row may still arrive. A pair is emitted in the timestep of the
later of its two rows. A row of an outer side without a match is emitted when event time shows that no match can arrive;
so is a row of an anti join. Null keys match nothing.

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
    side_words,
    sides_of,
    void_of,
)
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.model.hashspace import HashArray
from rechannel.model.spread import Share
from rechannel.operators.join.matching import Near, Pool
from rechannel.operators.join.two_inputs import TwoSided, kept_here, nullable
from rechannel.operators.window.logic import END, completes

MATCHED = pa.field("matched", pa.bool_(), False)

OUTER = {"left": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT)}
"""Sides whose rows are emitted even without a match. Their state says whether a row has had a match."""

ONCE = {"semi", "anti"}
"""Joins that emit left rows alone, each at most once."""


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
        """Columns of the row and, of an outer join, whether it has had a match."""
        return self.slots.append(MATCHED) if self.how in OUTER else self.slots

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, columns of the left side, columns of the right one."""
        fields = [*self.keys, *([pa.field(END, MICROS, False)] if self.window_us else [])]
        if self.how in ONCE:
            return pa.schema([*fields, *self.left.fields])
        left = nullable(self.left.fields) if self.how in {"right", "full"} else self.left.fields
        right = nullable(self.right.fields) if self.how in {"left", "full"} else self.right.fields
        return pa.schema([*fields, *left, *right])

    def lookup_range(self, values: Columns, groups: Groups) -> LookupRange | None:
        """Return the side whose rows the rows that came can match, or both sides.

        A right row of a semi or anti join needs both: it is stored only if the key has no right row yet.
        """
        side = values[0].to_numpy(zero_copy_only=False)
        came = [np.zeros(groups.count, dtype=np.bool_) for _ in (LEFT, RIGHT)]
        for number in (LEFT, RIGHT):
            came[number][groups.ids[side == number]] = True
        both = came[RIGHT] if self.how in ONCE else came[LEFT] & came[RIGHT]
        return (
            np.where(came[RIGHT] | both, first_of(LEFT), first_of(RIGHT)),
            np.where(came[LEFT] | both, first_of(RIGHT + 1), first_of(RIGHT)),
        )

    # Several tasks for one key ----------------------------------------------------------------------------------

    def undivided(self, side: int) -> str | None:
        """Return why rows of a side cannot be dealt out: whether a row has had a match is known in one task."""
        if self.how == "full":
            return (
                "it is a full join, so a row of either side is emitted with nulls if it has no match, and of a row that"
                " goes to several tasks none of them knows that"
            )
        divided = {"left": LEFT, "right": RIGHT, "semi": LEFT, "anti": LEFT}.get(self.how, side)
        if side != divided:
            return (
                f"what becomes of a row of the {side_words(divided)} side of a join with how={self.how!r} depends on"
                f" whether it has a match, so {side_words(side)} rows have to go to all tasks"
            )
        return None

    def depends_on_order(self, side: int) -> bool:
        """Whether it keeps the first row of a side: semi and anti joins without times keep one right row per key."""
        return self.how in ONCE and side == RIGHT and self.least_us is None

    # Time -------------------------------------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        """Whether event time limits which rows can match."""
        return self.window_us is not None or self.least_us is not None

    @property
    def near(self) -> Near | None:
        """How near matching rows are in time; None = times do not matter."""
        if self.least_us is None or self.most_us is None:
            return None
        return self.least_us, self.most_us

    @property
    def lag_us(self) -> int:
        """How far an emitted row may lie before the watermark: rows may wait until no other one can match them."""
        if self.window_us is not None:
            return self.window_us
        if self.least_us is None or self.most_us is None:
            return 0
        return max(self.most_us, -self.least_us, 0) + 1

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return the event time from which on nothing can match each row."""
        if not self.bounded:
            return None
        return self._dues(keys, state, sides_of(self.row_order(keys)))

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Return which rows may still be matched."""
        due = self.timer_of(keys, state)
        return None if due is None else due > clock.watermark

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether no row with this timer can be matched any more."""
        return timer <= clock.watermark

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return the timers of rows that can no longer find a match, if such rows are emitted."""
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
        """Pair the rows that came with stored ones and with each other."""
        pool = self._pool(arrivals)
        left, right = pool.pairs(self.near, once=self.how in ONCE)
        output, owners = self._matches(pool, left, right)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=output,
            output_hashes=arrivals.hashes[owners],
            late=self._late(arrivals, pool.late[pool.count :]),
            changed=self._changed(pool, left, right, arrivals.share),
        )

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Emit the due rows that have found no match."""
        sides = sides_of(self.row_order(keys))
        alone = np.isin(sides, OUTER.get(self.how, (LEFT,)))
        if self.how in OUTER:
            alone &= ~state[-1].to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(alone)
        names, slots, sides = take(keys[: len(self.keys)], rows), take(state, rows), sides[rows]
        if self.how == "anti":
            return self._shown(names, self.left.columns(slots)), hashes[rows]
        return self._shown(names, self._apart(slots, sides)), hashes[rows]

    def _pool(self, arrivals: OperatorInput) -> Pool:
        """Return stored rows and rows that came as one pool."""
        held = held_by(arrivals)
        came = arrivals.values[0].to_numpy(zero_copy_only=False).astype(np.int64)
        fresh = row_numbers(came, arrivals.timestep, arrivals.groups, arrivals.share)
        width, count = len(self.slots), len(held.owners)
        there = self.row_order(held.keys)
        numbers = np.concatenate([there, fresh])
        sides = sides_of(numbers)
        old, new = held.state[:width], arrivals.values[1:]
        times = np.zeros(len(sides), dtype=np.int64)
        if self.near is not None:
            parts = ((old, sides[:count]), (new, sides[count:]))
            times = np.concatenate([self._times(slots, of) for slots, of in parts])
        owners = np.concatenate([held.owners, arrivals.groups.ids])
        late = np.zeros(len(owners), dtype=np.bool_)
        late[count:] = self._too_late(arrivals, times[count:])
        matched = np.zeros(len(owners), dtype=np.bool_)
        if self.how in OUTER and count:
            matched[:count] = held.state[-1].to_numpy(zero_copy_only=False)
        return Pool(
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

    def _too_late(self, arrivals: OperatorInput, times: IntArray) -> Mask | bool:
        """Return which rows that came are too late. times: of these rows."""
        before = arrivals.clock.before
        if self.near is not None:
            return times < max(before, NEVER + 1)
        if self.window_us is None:
            return False
        starts, nulls = micros(arrivals.keys[-1])
        gone = starts + self.window_us <= before
        gone = gone if nulls is None else gone | nulls
        return gone[arrivals.groups.ids]

    def _matches(
        self, pool: Pool, left: IntArray, right: IntArray
    ) -> tuple[pa.RecordBatch, IntArray]:
        """Return what is emitted for pairs, and the number of each row's key, ascending."""
        if self.how == "anti":
            left = left[:0]
        if self.how in ONCE:
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

    def _changed(self, pool: Pool, left: IntArray, right: IntArray, share: Share | None) -> Changed:
        """Return rows that came and are stored, and stored rows that change or end."""
        once = self.how in ONCE
        met = np.zeros(len(pool.owners), dtype=np.bool_)
        met[left] = True
        met[right] = True
        stays = pool.came & ~pool.late & (~pool.void[pool.owners] | self._outer(pool.sides))
        stays &= kept_here(pool.sides, share)
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
        """Return which rows are emitted if they have no match."""
        found: Mask = np.isin(sides, (LEFT,) if self.how == "anti" else OUTER.get(self.how, ()))
        return found
