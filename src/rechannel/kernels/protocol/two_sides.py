"""The two sides of an operator with two inputs: how their rows travel and are stored in one form.

Columns of the two sides that have the same type share a *slot*: one column of what travels and of the state. Another
column tells the side of each row. So neither side pays for the columns of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.errors import UnknownColumnError, UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import from_numpy
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.spread import Share

LEFT, RIGHT = 0, 1
PREFIXES = ("left.", "right.")
MARK = pa.field(".side", pa.int8(), False)
ROW = pa.field("_row", pa.int64(), False)
"""Tells rows of a key apart: side, timestep in which the row came, place among the key's rows of that timestep."""

_PLACES, _TIMESTEPS = 24, 37


@dataclass(frozen=True, kw_only=True)
class Sided:
    """Marks rows of one side: keys get common names, all other columns the side's prefix."""

    side: int
    keys: tuple[tuple[str, str], ...]
    """(name on this side, common name)."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of this side, marked."""
        names = batch.schema.names
        columns = [batch.column(i) for i in self._order(names)]
        mark = from_numpy(np.full(batch.num_rows, self.side, dtype=np.int8), MARK.type)
        width = len(self.keys)
        return pa.RecordBatch.from_arrays(
            [*columns[:width], mark, *columns[width:]], schema=self.schema_of(batch.schema)
        )

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of this side's marked rows."""
        fields = [schema.field(i) for i in self._order(schema.names)]
        width = len(self.keys)
        keys = [
            field.with_name(name)
            for field, (_, name) in zip(fields[:width], self.keys, strict=True)
        ]
        others = [field.with_name(PREFIXES[self.side] + field.name) for field in fields[width:]]
        return pa.schema([*keys, MARK, *others])

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return which columns of this side's rows are read for some columns of the result."""
        prefix = PREFIXES[self.side]
        others = {name.removeprefix(prefix) for name in wanted if name.startswith(prefix)}
        return others | {own for own, _ in self.keys}

    def _order(self, names: Sequence[str]) -> list[int]:
        """Return the positions of key columns, then of the others. Raises UnknownColumnError."""
        missing = [own for own, _ in self.keys if own not in names]
        if missing:
            msg = f"there is no column {missing[0]!r} to join on; there are {', '.join(names)}"
            raise UnknownColumnError(msg)
        keys = [list(names).index(own) for own, _ in self.keys]
        return [*keys, *(i for i in range(len(names)) if i not in keys)]


@dataclass(frozen=True, kw_only=True)
class Side:
    """Columns of one side that are not keys."""

    fields: pa.Schema
    """The columns as they are emitted."""
    sources: tuple[str, ...]
    """Their names in the side's marked rows (`Sided`)."""
    slots: tuple[int, ...]
    """The slot of each."""
    time: int | None = None
    """Which of them has the event time; None = the operator does not read it."""

    def columns(self, slots: Columns) -> Columns:
        """Pick the side's columns from the slots."""
        return [slots[i] for i in self.slots]

    def nulls(self, rows: int) -> Columns:
        """Return nulls for rows that have no match on this side."""
        return [pa.nulls(rows, field.type) for field in self.fields]


def slots_in(batch: pa.RecordBatch, left: Side, right: Side, slots: pa.Schema) -> Columns:
    """Return rows of one side as they travel: their side, and slots."""
    names, rows = batch.schema.names, batch.num_rows
    mark = batch.column(names.index(MARK.name))
    columns = {}
    if rows:
        side = right if mark[0].as_py() == RIGHT else left
        sources = zip(side.slots, side.sources, strict=True)
        columns = {slot: batch.column(names.index(source)) for slot, source in sources}
    nulls = (pa.nulls(0 if i in columns else rows, f.type) for i, f in enumerate(slots))
    return [mark, *(columns.get(i, null) for i, null in enumerate(nulls))]


def void_of(keys: Columns) -> Mask:
    """Return which keys match nothing, since a part of the key is null."""
    void = np.zeros(len(keys[0]), dtype=np.bool_)
    for column in keys:
        if column.null_count:
            void |= column.is_null().to_numpy(zero_copy_only=False)
    return void


def slots_of(
    left: Sequence[pa.Field], right: Sequence[pa.Field]
) -> tuple[tuple[int, ...], tuple[int, ...], pa.Schema]:
    """Return the slots of both sides' columns, and the slots' fields.

    A slot's name lists the columns in it, so that a change of the program cannot put another column there unnoticed.
    """
    kinds, names = [field.type for field in left], [field.name for field in left]
    free = list(range(len(kinds)))
    taken = []
    for field in right:
        slot = next((i for i in free if kinds[i] == field.type), None)
        if slot is None:
            kinds.append(field.type)
            names.append(field.name)
            slot = len(kinds) - 1
        else:
            free.remove(slot)
            names[slot] += f" {field.name}"
        taken.append(slot)
    fields = [pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)]
    return tuple(range(len(left))), tuple(taken), pa.schema(fields)


def row_numbers(
    sides: IntArray, timestep: int, groups: Groups, share: Share | None = None
) -> IntArray:
    """Return `ROW` for the rows of a timestep. Raises UserFunctionError if there are too many rows to number.

    share: the task's part in a spread bin; rows of the divided side have other numbers in each of its tasks.
    """
    places = np.arange(groups.rows, dtype=np.int64) - np.repeat(groups.starts, groups.sizes)
    if share is not None:
        places = np.where(sides == share.side, places * share.of + share.place, places)
    if timestep >> _TIMESTEPS or (len(places) and int(places.max()) >> _PLACES):
        msg = (
            f"over {1 << _PLACES:,} rows of one key in timestep {timestep}: make timesteps smaller"
        )
        raise UserFunctionError(msg)
    numbers: IntArray = (sides << (_TIMESTEPS + _PLACES)) | (timestep << _PLACES) | places
    return numbers


def first_of(side: int) -> int:
    """Return the smallest `ROW` of a side."""
    return side << (_TIMESTEPS + _PLACES)


def sides_of(numbers: IntArray) -> IntArray:
    """Return the sides of rows, given their `ROW`."""
    sides: IntArray = numbers >> (_TIMESTEPS + _PLACES)
    return sides


def side_words(side: int) -> str:
    """Return a side as messages name it."""
    return "left" if side == LEFT else "right"
