"""`lookup`: rows of a stream with the row that a table has for their key.

State: the table, one row per key. Each timestep applies its rows of the table first; then the rows of the stream look
their key up and leave. They are not kept: a later row of the table changes nothing for them. So the output follows from
the input and from how it was cut into timesteps, and from nothing else. Null keys match nothing and are not stored.

Of the rows of a key, the one with the largest `by` counts, and of equal ones the one that came last; without `by`, the
one that came last. A row may also say that its key is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.ranking import newest
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.bases import EveryRow
from rechannel.kernels.protocol.capabilities import (
    Projecting,
    Pruned,
    Pruning,
    Spreadable,
    Viewed,
)
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.protocol.two_sides import LEFT, MARK, RIGHT, Side, slots_in, void_of
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.spread import Share


@dataclass(frozen=True, eq=False, kw_only=True)
class LookupLogic(EveryRow, Projecting, Pruning, Spreadable, Viewed):
    """The newest row of every key of a table: a `StatefulLogic`.

    key_schema: what both sides are alike in. left: the stream's other columns. right: the table's, as they are kept.
    slots: of both sides. shown: the table's columns as they are shown beside those of the stream. how: inner, left. by:
    which columns of the table tell the newer row. ends: the last column of the table says whether its row ends the key.
    """

    key_schema: pa.Schema
    left: Side
    right: Side
    slots: pa.Schema
    shown: pa.Schema
    how: str
    by: tuple[int, ...] = ()
    ends: bool = False

    @property
    def value_schema(self) -> pa.Schema:
        """Which side, and its columns."""
        return pa.schema([MARK, *self.slots])

    @cached_property
    def state_schema(self) -> pa.Schema:
        """The table's columns."""
        return pa.schema(list(self.right.fields)[: len(self.shown)])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, the stream's columns, the table's."""
        missing = self.how == "left"
        found = [field.with_nullable(missing or field.nullable) for field in self.shown]
        return pa.schema([*self.key_schema, *self.left.fields, *found])

    @cached_property
    def view_schema(self) -> pa.Schema:
        """Return the columns of the table, keys first."""
        return pa.schema([*self.key_schema, *self.state_schema])

    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """Slots of rows of one side."""
        return slots_in(batch, self.left, self.right, self.slots)

    @property
    def reads(self) -> tuple[str, ...]:
        """Of which side rows are, and the columns of both."""
        return (MARK.name, *self.left.sources, *self.right.sources)

    def prune(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """Of a table's rows, the newest of every key; of the stream's, all."""
        if groups.count == groups.rows or values[0][0].as_py() != RIGHT:
            return None
        by = [values[1 + self.right.slots[place]] for place in self.by]
        return newest(by, groups.ids), {}

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """The table with the rows that came to it; the stream's rows with what they found there."""
        came = arrivals.values[0].to_numpy(zero_copy_only=False) == RIGHT
        void = void_of(arrivals.keys)
        ids = arrivals.groups.ids
        rows = np.flatnonzero(came & ~void[ids])
        place, there, changed = self._newer(arrivals, rows)
        fresh = self._stored(take(arrivals.values, rows))
        table = [
            pa.concat_arrays([old, new]).take(pa.array(place))
            for old, new in zip(arrivals.old, fresh, strict=True)
        ]
        output, owners = self._looked_up(arrivals, np.flatnonzero(~came), table, there)
        ended = changed & ~there
        stores = arrivals.share is None or arrivals.share.primary
        return OperatorOutput(
            state=table,
            dropped=ended if ended.any() else None,
            output=output,
            output_hashes=arrivals.hashes[owners],
            untouched=~changed if stores else np.ones(len(changed), dtype=np.bool_),
        )

    def undivided(self, side: int) -> str | None:
        """Return why rows of the table cannot be dealt out: every row of the stream looks them up."""
        if side == LEFT:
            return None
        return "rows of the stream are looked up in the table, whose rows have to go to all tasks"

    def side_of(self, values: Columns) -> int:
        """Return the side that the rows are marked with."""
        side: int = values[0][0].as_py()
        return side

    def considered(self, keys: Columns, share: Share) -> None:
        """Every task looks up in the whole table."""
        del keys, share

    def depends_on_order(self, side: int) -> bool:
        """Of rows of the table that are equally new, the one that came last counts."""
        return side == RIGHT

    def _newer(self, arrivals: OperatorInput, rows: IntArray) -> tuple[IntArray, Mask, Mask]:
        """Return where each key's row is now, whether it has one, and whether it changed.

        Positions count the stored rows (one per key), then the new ones.
        """
        count = arrivals.groups.count
        place, there = np.arange(count, dtype=np.int64), arrivals.found.copy()
        changed = np.zeros(count, dtype=np.bool_)
        if not len(rows):
            return place, there, changed
        came = take(arrivals.values, rows)
        owners = arrivals.groups.ids[rows]
        known = np.flatnonzero(there) if self.by else np.empty(0, dtype=np.int64)
        both = [
            pa.concat_arrays([old.take(pa.array(known)), new])
            for old, new in zip(arrivals.old, self._stored(came), strict=True)
        ]
        newest = self._newest(both, np.concatenate([known, owners]))
        newest = newest[newest >= len(known)] - len(known)
        keys = owners[newest]
        place[keys], changed[keys], there[keys] = count + newest, True, True
        if self.ends:
            ended = self.right.columns(came[1:])[-1].fill_null(False)
            there[keys] = ~ended.to_numpy(zero_copy_only=False)[newest]
        return place, there, changed

    def _newest(self, stored: Columns, owners: IntArray) -> IntArray:
        return newest([stored[place] for place in self.by], owners)

    def _stored(self, values: Columns) -> Columns:
        """The table's columns out of what travels."""
        return self.right.columns(values[1:])[: len(self.shown)]

    def _looked_up(
        self, arrivals: OperatorInput, rows: IntArray, table: Columns, there: Mask
    ) -> tuple[pa.RecordBatch, IntArray]:
        """Rows of the stream with what they found, and the number of each one's key, ascending."""
        owners = arrivals.groups.ids[rows]
        if self.how == "inner":
            rows, owners = rows[there[owners]], owners[there[owners]]
        index = pa.array(owners, mask=~there[owners])
        columns = [
            *take(arrivals.keys, owners),
            *self.left.columns(take(arrivals.values[1:], rows)),
            *(column.take(index) for column in table),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema), owners

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return the rows of the table, keys first."""
        return pa.RecordBatch.from_arrays([*keys, *state], schema=self.view_schema)
