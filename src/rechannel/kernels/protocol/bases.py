"""What is alike in operators: nothing waits, every row is seen, a key has many state rows; and rows as they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns, columns_of
from rechannel.kernels.columnar.groups import Groups, IntArray
from rechannel.kernels.columnar.sorting import fast_take, group_rows, take
from rechannel.kernels.protocol.logic import Late, LookupRange, OperatorInput, Pruned, StoredRows
from rechannel.model.eventtime import Clock


class Prompt:
    """A part of a `StatefulLogic`: nothing waits for a time."""

    if TYPE_CHECKING:  # the operator has them

        @property
        def key_schema(self) -> pa.Schema:
            """Key columns."""

        @property
        def value_schema(self) -> pa.Schema:
            """Raw columns."""

        @property
        def output_schema(self) -> pa.Schema:
            """What the operator emits."""

    @property
    def hashed(self) -> int:
        """The whole key says where its state lies."""
        return len(self.key_schema)

    @property
    def sent(self) -> int:
        """The whole key, unless some of it tells the rows of a key apart."""
        return self.hashed if self.collects else len(self.key_schema)

    def stamped(self, keys: Columns, clock: Clock) -> Columns:
        """Keys are keys."""
        return keys

    @property
    def collects(self) -> bool:
        """A key has one state row."""
        return False

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that travel."""
        return tuple(self.value_schema.names)

    @property
    def recalls(self) -> bool:
        """State is looked up."""
        return True

    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """By their names."""
        return columns_of(batch, self.value_schema)

    def thin(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """Every row counts."""

    def asks(self, values: Columns, groups: Groups) -> LookupRange | None:
        """All state rows of a key."""

    def minor(self, keys: Columns) -> IntArray | None:
        """Keys of one hash are rare."""

    @property
    def shown_schema(self) -> pa.Schema:
        """State is shown as it is emitted."""
        return self.output_schema

    @property
    def once(self) -> bool:
        """State rows are written again."""
        return False

    @property
    def behind_us(self) -> int:
        """Rows leave when they come."""
        return 0

    def needed(
        self, keys: Columns, state: Columns, hashes: npt.NDArray[np.uint64], clock: Clock
    ) -> npt.NDArray[np.bool_] | None:
        """State rows do not depend on each other."""

    def due(self, keys: Columns, state: Columns) -> IntArray | None:
        """Nothing waits."""

    @property
    def early_ms(self) -> int | None:
        """Nothing is shown early."""
        return None

    def spanned(self, keys: Columns) -> tuple[int, int] | None:
        """Keys say nothing of time."""

    def gone(self, due: int, clock: Clock) -> bool:
        """Nothing waits."""
        return False

    @property
    def lasts_us(self) -> int | None:
        """Nothing goes by itself."""
        return None

    def awaited(self, clock: Clock) -> tuple[int, int] | None:
        """Nothing waits."""

    def together(self, keys: Columns, state: Columns) -> npt.NDArray[np.bool_] | None:
        """Rows are shown by themselves."""

    def fire(
        self, keys: Columns, state: Columns, hashes: npt.NDArray[np.uint64], clock: Clock
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.uint64]]:
        """Never called."""
        msg = f"nothing of {type(self).__name__} waits for event time"
        raise NotImplementedError(msg)


class EveryRow(Prompt):
    """A part of a `StatefulLogic` that must see every row, in the order of the stream."""

    @property
    def combinable(self) -> bool:
        """Rows travel as they are."""
        return False

    @property
    def ordered(self) -> bool:
        """What becomes of a key may depend on the order of its rows."""
        return True

    def wire_schema(self, *, combined: bool) -> pa.Schema:
        """Raw rows travel."""
        if combined:
            msg = f"{type(self).__name__} does not combine"
            raise ValueError(msg)
        return self.value_schema

    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Never called: `combinable` says no."""
        msg = f"{type(self).__name__} does not combine ({len(values)} columns, {groups.count} keys)"
        raise ValueError(msg)


class ManyRows(EveryRow):
    """A part of a `StatefulLogic` whose keys have several state rows, told apart by key columns that do not travel.

    The last of those is a whole number by which the rows of a key are sorted.
    """

    if TYPE_CHECKING:

        @property
        def keys(self) -> pa.Schema:
            """The keys proper."""

    @property
    def hashed(self) -> int:
        """The keys proper."""
        return len(self.keys)

    @property
    def collects(self) -> bool:
        """A key has several."""
        return True

    def minor(self, keys: Columns) -> IntArray:
        """The last column."""
        numbers: IntArray = keys[-1].to_numpy(zero_copy_only=False)
        return numbers

    def by_key(
        self, keys: Columns, state: Columns, hashes: npt.NDArray[np.uint64]
    ) -> tuple[Groups, Columns, Columns]:
        """State rows that are sorted by hash: those of a key become neighbours, in the order that they have."""
        groups, untangled = group_rows(hashes, keys[: self.hashed])
        if untangled is None:
            return groups, keys, state
        return groups, take(keys, untangled), take(state, untangled)


def held_by(arrivals: OperatorInput) -> StoredRows:
    """The state rows of the keys that received rows. Raises ValueError for an operator whose keys have one each."""
    if arrivals.held is None:
        msg = "the state of these keys was looked up, and not collected"
        raise ValueError(msg)
    return arrivals.held


def column_of(name: str, arrivals: OperatorInput, columns: tuple[pa.Schema, pa.Schema]) -> pa.Array:
    """A column of all rows, be it a key or not. columns: (keys, others)."""
    keys, others = columns
    if name in others.names:
        return arrivals.values[others.get_field_index(name)]
    return fast_take(arrivals.keys[keys.get_field_index(name)], arrivals.groups.ids)


def some_of(
    arrivals: OperatorInput, keys: IntArray, rows: IntArray, groups: Groups
) -> OperatorInput:
    """Some of the keys and of the rows. groups: which of these rows are of which of these keys."""
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
    """The keys from one to another, with their rows."""
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
    """Rows with the columns that the stream has, out of columns: (keys, others)."""
    known = dict(zip(columns[0].names, take(arrivals.keys, owners), strict=True))
    known |= dict(zip(columns[1].names, take(arrivals.values, rows), strict=True))
    return pa.RecordBatch.from_arrays([known[name] for name in schema.names], schema=schema)


def late_rows(
    arrivals: OperatorInput, rows: IntArray, columns: tuple[pa.Schema, pa.Schema], schema: pa.Schema
) -> Late:
    """Rows that came too late, where they are read."""
    owners = arrivals.groups.ids[rows]
    batch = as_they_came(arrivals, rows, owners, columns, schema)
    return Late(count=len(rows), rows=batch, hashes=arrivals.hashes[owners])
