"""As-of join: each left row meets the latest right row of its key at or before its event time.

State: left rows that wait, and right rows that a left row may still meet. A left row waits until the watermark has
passed its time: rows that arrive later and are not after it are late. So it meets the row that it would meet in a batch
over all rows that are not late. Of right rows with the same time, the one that came last counts. Null keys match
nothing.

Of the right rows of a key that the watermark has passed, only the last one can still be met. The others are dropped
when rows of the key arrive, since the key's rows are read then, or when they are merged with the last one; with a
tolerance, also when the watermark is further than that past them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import (
    from_numpy,
    group_rows,
    last_not_after,
    nested_order,
    take,
)
from rechannel.kernels.protocol.bases import held_by
from rechannel.kernels.protocol.capabilities import Emitted, Grouped, WrittenOnce
from rechannel.kernels.protocol.logic import Changed, OperatorInput, OperatorOutput
from rechannel.kernels.protocol.two_sides import (
    LEFT,
    RIGHT,
    ROW,
    Side,
    row_numbers,
    sides_of,
    void_of,
)
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.join.two_inputs import TwoSided, kept_here, nullable


@dataclass(frozen=True, eq=False, kw_only=True)
class AsofLogic(TwoSided, WrittenOnce, Grouped):
    """Left rows with the latest right row at or before their time: a `StatefulLogic`."""

    keys: pa.Schema
    """The common keys."""
    left: Side
    """Columns of the left side, with its event time."""
    right: Side
    """Columns of the right side, with its event time."""
    slots: pa.Schema
    """Columns that both sides share while they travel and are stored."""
    how: str
    """left: emit rows that meet none, with nulls; inner: do not."""
    tolerance_us: int | None = None
    """The right row is at most this much earlier; None = any time."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""

    @property
    def state_schema(self) -> pa.Schema:
        """Columns of the row."""
        return self.slots

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, columns of the left side, columns of the right one."""
        right = nullable(self.right.fields) if self.how == "left" else self.right.fields
        return pa.schema([*self.keys, *self.left.fields, *right])

    # Several tasks for one key ----------------------------------------------------------------------------------

    def undivided(self, side: int) -> str | None:
        """Return why right rows cannot be dealt out: a left row meets the latest of all of them."""
        if side == LEFT:
            return None
        return "a left row meets the latest of all right rows, so these have to go to all tasks"

    def depends_on_order(self, side: int) -> bool:
        """Of right rows with the same time, the one that came last counts."""
        return side == RIGHT

    # Time -------------------------------------------------------------------------------------------------------

    def timer_of(self, keys: Columns, state: Columns) -> IntArray:
        """Return the first event time after each row: by then, it is settled which earlier row it meets."""
        times = self._times(state, sides_of(self.row_order(keys)))
        # A tombstone that was migrated has no time: it goes when it is merged with its row.
        dues: IntArray = np.where(times == NEVER, ENDED, np.minimum(times, ENDED - 1) + 1)
        return dues

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask:
        """Left rows that wait, right rows that are near enough to be met."""
        due, right = self.timer_of(keys, state), sides_of(self.row_order(keys)) == RIGHT
        alive: Mask = due > clock.watermark
        alive |= right & ~self._far(due, clock)
        return alive

    def needed(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Mask | None:
        """Return all but right rows that are followed by another one of their key that the watermark has passed.

        A row that ended counts as such a follower: it ended because of one, or because no row is met any more.
        """
        numbers = self.row_order(keys)
        sides = sides_of(numbers)
        times = self._times(state, sides)
        groups, untangled = group_rows(hashes, keys[: self.hashed])
        owners = groups.ids
        if untangled is not None:
            owners = np.empty_like(groups.ids)
            owners[untangled] = groups.ids
        right = np.flatnonzero((sides == RIGHT) & (times <= clock.watermark))
        right = right[nested_order(owners[right], times[right], numbers[right])]
        needed = np.ones(len(hashes), dtype=np.bool_)
        needed[right[:-1][owners[right[1:]] == owners[right[:-1]]]] = False
        return needed

    def gone(self, timer: int, clock: Clock) -> bool:
        """Return whether no left row can meet a right row that is earlier than the timer."""
        return bool(self._far(np.array([timer]), clock)[0])

    def _far(self, due: IntArray, clock: Clock) -> Mask:
        """Whether no row that is not late is near enough to right rows."""
        if self.tolerance_us is None or clock.watermark == NEVER:
            return np.zeros(len(due), dtype=np.bool_)
        far: Mask = due <= clock.watermark - self.tolerance_us
        return far

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Left rows that the watermark has passed."""
        return None if clock.watermark == clock.before else (clock.before, clock.watermark)

    def together(self, keys: Columns, state: Columns) -> Mask:
        """A left row is shown with a right one that came before."""
        left: Mask = sides_of(self.row_order(keys)) == LEFT
        return left

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Left rows that the watermark has passed, of keys that received nothing."""
        rows = _Rows.of_keys(self, keys, state, hashes)
        due = np.flatnonzero((rows.sides == LEFT) & (rows.times < clock.watermark))
        return self._met(rows, due, np.flatnonzero(rows.sides == RIGHT))

    # Rows -------------------------------------------------------------------------------------------------------

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Put rows in their places, and show the left ones that the watermark has passed."""
        rows, count = _Rows.of_all(self, arrivals), len(held_by(arrivals).owners)
        came = np.arange(len(rows.owners)) >= count
        late = came & (rows.times < max(arrivals.clock.before, NEVER + 1))
        void = void_of(arrivals.keys)[rows.owners]
        right = np.flatnonzero((rows.sides == RIGHT) & ~late & ~void)
        left = (rows.sides == LEFT) & ~late & (~void | (self.how == "left"))
        due = left & (rows.times < arrivals.clock.watermark)
        output, hashes = self._met(rows, np.flatnonzero(due), right)
        stays = left & ~due
        stays[right] = True
        passed = rows.passed(right, arrivals.clock.watermark)
        stays[passed] = False
        dropped = np.zeros(len(came), dtype=np.bool_)
        dropped[passed] = True
        return OperatorOutput(
            state=[],
            dropped=None,
            output=output,
            output_hashes=hashes,
            late=self._late(arrivals, late[count:]),
            changed=rows.changed(
                np.where(came, stays, dropped) & kept_here(rows.sides, arrivals.share),
                dropped & ~came,
            ),
        )

    def _met(self, rows: _Rows, left: IntArray, right: IntArray) -> Emitted:
        """Left rows with what they meet, by key and time, and the hashes of their keys."""
        left, right = rows.in_order(left), rows.in_order(right)
        owners = rows.owners[left]
        place = last_not_after(rows.owners[right], rows.times[right], owners, rows.times[left])
        found = place >= np.searchsorted(rows.owners[right], owners)
        meets = np.zeros(len(left), dtype=np.int64)
        meets[found] = right[place[found]]
        if self.tolerance_us is not None:
            found &= rows.times[left] - rows.times[meets] <= self.tolerance_us
        if self.how == "inner":
            left, meets, owners, found = left[found], meets[found], owners[found], found[found]
        theirs = pa.array(meets, mask=~found)
        columns = [
            *take(rows.keys, rows.first[owners]),
            *self.left.columns(take(rows.slots, left)),
            *(column.take(theirs) for column in self.right.columns(rows.slots)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.output_schema)
        return batch, rows.hashes[rows.first[owners]]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rows:
    """Rows of some keys, of both sides.

    keys, hashes: of keys, or of rows. first: where those of a key stand there. owners: number of every row's key, which
    ascends with the hash. slots, sides, times, numbers: of every row.
    """

    keys: Columns
    hashes: HashArray
    first: IntArray
    owners: IntArray
    slots: Columns
    sides: IntArray
    times: IntArray
    numbers: IntArray

    @classmethod
    def of_all(cls, logic: AsofLogic, arrivals: OperatorInput) -> _Rows:
        """Return stored rows followed by new rows."""
        held = held_by(arrivals)
        came = arrivals.values[0].to_numpy(zero_copy_only=False).astype(np.int64)
        fresh = row_numbers(came, arrivals.timestep, arrivals.groups, arrivals.share)
        numbers = np.concatenate([logic.row_order(held.keys), fresh])
        slots = [
            pa.concat_arrays([old, new])
            for old, new in zip(held.state, arrivals.values[1:], strict=True)
        ]
        return cls(
            keys=arrivals.keys,
            hashes=arrivals.hashes,
            first=np.arange(len(arrivals.hashes)),
            owners=np.concatenate([held.owners, arrivals.groups.ids]),
            slots=slots,
            sides=sides_of(numbers),
            times=logic._times(slots, sides_of(numbers)),
            numbers=numbers,
        )

    @classmethod
    def of_keys(cls, logic: AsofLogic, keys: Columns, state: Columns, hashes: HashArray) -> _Rows:
        """All state rows of keys. Rows of a key are neighbours."""
        groups, keys, state = logic.by_key(keys, state, hashes)
        numbers = logic.row_order(keys)
        sides = sides_of(numbers)
        return cls(
            keys=keys[: len(logic.keys)],
            hashes=hashes,
            first=groups.starts,
            owners=groups.ids,
            slots=state,
            sides=sides,
            times=logic._times(state, sides),
            numbers=numbers,
        )

    def in_order(self, rows: IntArray) -> IntArray:
        """Rows by key and time; those of one time as they came."""
        order = nested_order(self.owners[rows], self.times[rows], self.numbers[rows])
        return rows[order]

    def passed(self, right: IntArray, watermark: int) -> IntArray:
        """Return right rows that are followed by another one of their key that the watermark has passed."""
        right = self.in_order(right)
        owners, times = self.owners[right], self.times[right]
        found: IntArray = right[:-1][(owners[1:] == owners[:-1]) & (times[1:] <= watermark)]
        return found

    def changed(self, written: Mask, dropped: Mask) -> Changed:
        """Rows to be written. dropped: those of them that end."""
        rows = np.flatnonzero(written)
        owners, numbers = self.owners[rows], self.numbers[rows]
        order = nested_order(self.hashes[owners], numbers)
        rows, owners, numbers = rows[order], owners[order], numbers[order]
        return Changed(
            hashes=self.hashes[owners],
            columns=[
                *take(self.keys, owners),
                from_numpy(numbers, ROW.type),
                *take(self.slots, rows),
            ],
            dropped=dropped[rows] if dropped.any() else None,
        )
