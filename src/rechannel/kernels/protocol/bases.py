"""What operators share: bases of those that see every row or keep several rows per key, and helpers for their input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import fast_take, group_rows, take
from rechannel.kernels.protocol.capabilities import SeveralRows
from rechannel.kernels.protocol.logic import Late, OperatorInput, StoredRows
from rechannel.model.buffers import IntArray
from rechannel.model.hashspace import HashArray


class EveryRow:
    """A part of a `StatefulLogic` that must see every row, in the order of the stream."""

    @property
    def ordered(self) -> bool:
        """True: what becomes of a key may depend on the order of its rows."""
        return True


class ManyRows(EveryRow, SeveralRows):
    """A part of a `StatefulLogic` whose keys have several state rows. Key columns that do not travel tell them apart.

    The last of these columns is an integer by which the rows of a key are sorted.
    """

    if TYPE_CHECKING:

        @property
        def keys(self) -> pa.Schema:
            """The user's key columns."""

    @property
    def hashed(self) -> int:
        """The number of the user's key columns."""
        return len(self.keys)

    def row_order(self, keys: Columns) -> IntArray:
        """Return the last key column."""
        numbers: IntArray = keys[-1].to_numpy(zero_copy_only=False)
        return numbers

    def by_key(
        self, keys: Columns, state: Columns, hashes: HashArray
    ) -> tuple[Groups, Columns, Columns]:
        """Group state rows that are sorted by hash, so that rows of a key are neighbours and keep their order."""
        groups, untangled = group_rows(hashes, keys[: self.hashed])
        if untangled is None:
            return groups, keys, state
        return groups, take(keys, untangled), take(state, untangled)


def held_by(arrivals: OperatorInput) -> StoredRows:
    """Return the state rows of the keys that received rows. Raises ValueError if keys have one state row each."""
    if arrivals.held is None:
        msg = "the state of these keys was looked up, and not collected"
        raise ValueError(msg)
    return arrivals.held


def column_of(name: str, arrivals: OperatorInput, columns: tuple[pa.Schema, pa.Schema]) -> pa.Array:
    """Return one column of all rows, whether it is a key or not. columns: (key columns, other columns)."""
    keys, others = columns
    if name in others.names:
        return arrivals.values[others.get_field_index(name)]
    return fast_take(arrivals.keys[keys.get_field_index(name)], arrivals.groups.ids)


def some_of(
    arrivals: OperatorInput, keys: IntArray, rows: IntArray, groups: Groups
) -> OperatorInput:
    """Return the input with some of its keys and rows. groups: which of these rows belong to which of these keys."""
    return replace(
        arrivals,
        keys=take(arrivals.keys, keys),
        hashes=arrivals.hashes[keys],
        values=take(arrivals.values, rows),
        groups=groups,
        old=take(arrivals.old, keys),
        found=arrivals.found[keys],
    )


def keys_between(arrivals: OperatorInput, start: int, stop: int) -> OperatorInput:
    """Return the input with the keys [start, stop) and their rows."""
    begins = arrivals.groups.starts[start:stop]
    first, last = int(begins[0]), int(arrivals.groups.ends[stop - 1])
    groups = Groups(begins - first, last - first)
    rows = np.arange(first, last, dtype=np.int64)
    return some_of(arrivals, np.arange(start, stop, dtype=np.int64), rows, groups)


def as_they_came(
    arrivals: OperatorInput,
    rows: IntArray,
    owners: IntArray,
    columns: tuple[pa.Schema, pa.Schema],
    schema: pa.Schema,
) -> pa.RecordBatch:
    """Return rows with the columns of the stream. columns: (key columns, other columns) of the input."""
    known = dict(zip(columns[0].names, take(arrivals.keys, owners), strict=True))
    known |= dict(zip(columns[1].names, take(arrivals.values, rows), strict=True))
    return pa.RecordBatch.from_arrays([known[name] for name in schema.names], schema=schema)


def late_rows(
    arrivals: OperatorInput, rows: IntArray, columns: tuple[pa.Schema, pa.Schema], schema: pa.Schema
) -> Late:
    """Return late rows with the columns of the stream."""
    owners = arrivals.groups.ids[rows]
    batch = as_they_came(arrivals, rows, owners, columns, schema)
    return Late(count=len(rows), rows=batch, hashes=arrivals.hashes[owners])
