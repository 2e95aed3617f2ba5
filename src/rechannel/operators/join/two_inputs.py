"""What operators with two inputs have in common: how rows of both sides travel, are stored and are shown."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.bases import ManyRows
from rechannel.kernels.protocol.capabilities import (
    Expiring,
    LateTelling,
    Projecting,
    Spreadable,
    Timed,
    Viewed,
)
from rechannel.kernels.protocol.logic import Late, OperatorInput
from rechannel.kernels.protocol.two_sides import LEFT, MARK, RIGHT, ROW, Side, sides_of, slots_in
from rechannel.kernels.shuffle.watermarks import micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import NEVER
from rechannel.model.spread import Share

SHOWN_SIDE = pa.field("_side", pa.string(), False)


class TwoSided(ManyRows, Projecting, Spreadable, Viewed, Expiring, Timed, LateTelling):
    """A part of a `StatefulLogic` whose state rows are rows of either side, told apart by `ROW`."""

    if TYPE_CHECKING:  # the operator has them

        @property
        def left(self) -> Side:
            """Columns of the left side."""

        @property
        def right(self) -> Side:
            """Columns of the right side."""

        @property
        def slots(self) -> pa.Schema:
            """Columns of both sides, shared."""

        @property
        def keep_late(self) -> bool:
            """Whether late rows are read."""

    @property
    def key_schema(self) -> pa.Schema:
        """Keys, and the column that tells the rows of a key apart."""
        return self.keys.append(ROW)

    @property
    def value_schema(self) -> pa.Schema:
        """The side of a row, and its columns."""
        return pa.schema([MARK, *self.slots])

    @cached_property
    def view_schema(self) -> pa.Schema:
        """Keys, the side of a row, the columns of both sides."""
        both = (nullable(side.fields) for side in (self.left, self.right))
        return pa.schema([*self.keys, SHOWN_SIDE, *(field for side in both for field in side)])

    @property
    def row_schema(self) -> pa.Schema:
        """Late rows have the columns that state is shown with."""
        return self.view_schema

    @property
    def reads(self) -> tuple[str, ...]:
        """The side of a row, and the columns of both sides."""
        return (MARK.name, *self.left.sources, *self.right.sources)

    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """Return the slots of rows of one side."""
        return slots_in(batch, self.left, self.right, self.slots)

    def side_of(self, values: Columns) -> int:
        """Return the side that the rows are marked with."""
        side: int = values[0][0].as_py()
        return side

    def considered(self, keys: Columns, share: Share) -> Mask:
        """Return the task's share of the divided side, and all rows of the other one."""
        numbers = self.row_order(keys)
        mine: Mask = (sides_of(numbers) != share.side) | share.considers(numbers)
        return mine

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return stored rows as they are shown."""
        return self._told(keys[: len(self.keys)], state, sides_of(self.row_order(keys)))

    def _times(self, slots: Columns, sides: IntArray) -> IntArray:
        """Return the event times of rows; NEVER for rows without one."""
        out = np.full(len(sides), NEVER, dtype=np.int64)
        for number, side in ((LEFT, self.left), (RIGHT, self.right)):
            of = np.flatnonzero(sides == number)
            if side.time is not None and len(of):
                times, nulls = micros(slots[side.slots[side.time]].take(pa.array(of)))
                out[of] = times if nulls is None else np.where(nulls, NEVER, times)
        return out

    def _told(self, keys: Columns, slots: Columns, sides: IntArray) -> pa.RecordBatch:
        """Return rows of both sides with the columns of `view_schema`."""
        words = pa.array(["left", "right"]).take(pa.array(sides))
        columns = [*keys, words, *self._apart(slots, sides)]
        return pa.RecordBatch.from_arrays(columns, schema=self.view_schema)

    def _apart(self, slots: Columns, sides: IntArray) -> Columns:
        """Return the columns of the left side, then of the right one; null for rows of the other side."""
        columns: Columns = []
        for number, side in ((LEFT, self.left), (RIGHT, self.right)):
            of = pa.array(sides == number)
            whole = zip(side.columns(slots), side.nulls(len(sides)), strict=True)
            columns += [pa.compute.if_else(of, column, null) for column, null in whole]
        return columns

    def _late(self, arrivals: OperatorInput, late: Mask) -> Late | None:
        """Return the rows that came too late. late: whether each row that came is."""
        if arrivals.share is not None:
            came = arrivals.values[0].to_numpy(zero_copy_only=False)
            late = late & kept_here(came, arrivals.share)
        rows = np.flatnonzero(late)
        if not len(rows):
            return None
        if not self.keep_late:
            return Late(count=len(rows))
        owners = arrivals.groups.ids[rows]
        sides = arrivals.values[0].to_numpy(zero_copy_only=False)[rows].astype(np.int64)
        batch = self._told(take(arrivals.keys, owners), take(arrivals.values[1:], rows), sides)
        return Late(count=len(rows), rows=batch, hashes=arrivals.hashes[owners])


def kept_here(sides: IntArray, share: Share | None) -> Mask:
    """Return which rows a task stores, or reports as late: of rows that go to several tasks, only the primary does."""
    if share is None or share.primary:
        return np.ones(len(sides), dtype=np.bool_)
    divided: Mask = sides == share.side
    return divided


def nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as nullable: a row may have no match."""
    return pa.schema([field.with_nullable(True) for field in schema])
