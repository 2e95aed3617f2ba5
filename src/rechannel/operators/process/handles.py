"""The value of one key, as a `process` function reads and writes it, and what all handles of states share.

One object serves all keys of a call of `apply`: a cursor says which key it is about. Reading looks through what was
written to what is stored; what was written stays apart, by key, until pieces of rows are made of it. So a key that
fails is put back by forgetting what was written for it. Stored elements and entries of a key become Python values when
the function reads them, and not before: to append an element or to set an entry reads none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import is_, is_not
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.functions.emitted import Emitted
from rechannel.kernels.functions.python_rows import (
    Label,
    check_tuples,
    column_of,
    columns_of,
    python_rows,
    python_values,
    row_type,
)
from rechannel.model.buffers import IntArray, Mask
from rechannel.operators.process.states import State
from rechannel.operators.process.stored import (
    Held,
    Piece,
    constant_entries,
    constant_rows,
)

UNSET = object()
"""Nothing was written."""
GONE = object()
"""What was there has been removed."""


@dataclass(slots=True)
class Cursor:
    """Which key it is about: its position."""

    key: int = 0


@dataclass(frozen=True, kw_only=True)
class Made:
    """How what was written becomes rows."""

    timestep: int
    now_us: int
    held: Held
    """The rows that are stored."""
    whose: str
    """Name of the function, for messages."""
    emitted: Emitted = field(default_factory=Emitted)
    """What the function emitted."""

    def label(self, name: str, owners: Sequence[int] | IntArray, keys: Sequence[Any]) -> Label:
        """How messages name what was written: by its position among owners."""
        return lambda row: f"state {name!r}, as {self.whose} left it for key {keys[owners[row]]!r}"

    def stored(self, values: list[Any], state: State, what: Label) -> pa.Array:
        """Return values as the column of their state. Raises UserFunctionError."""
        fields = list(state.type.fields)
        known = self.emitted.known(values, fields) if len(fields) > 1 else None
        if known is not None:
            return pa.StructArray.from_arrays(known, fields=fields)
        return stored_values(values, state, what)

    def untils(self, state: State, count: int) -> IntArray | None:
        """Until when rows that are written now count; None = they stay."""
        if state.ttl_ms is None:
            return None
        return np.full(count, self.now_us + state.ttl_ms * 1_000, dtype=np.int64)


class ValueHandle:
    """A value of the key: `get()`, `set(value)`, `clear()`."""

    __slots__ = ("_cleared", "_cursor", "_name", "_new", "_old", "_state")

    def __init__(self, name: str, state: State, cursor: Cursor, held: Held, count: int) -> None:
        self._name, self._state, self._cursor = name, state, cursor
        some, column = held.of(name)
        values = values_in(column, state)
        owners = held.stored.owners[some]
        if np.array_equal(owners, np.arange(count)):
            self._old = values
        else:
            self._old = [None] * count
            for owner, value in zip(owners.tolist(), values, strict=True):
                self._old[owner] = value
        self._new: list[Any] = [UNSET] * count
        self._cleared = False

    def get(self, default: Any = None) -> Any:
        """Return the value, or the default: a scalar where the state has one column, else a NamedTuple."""
        at = self._cursor.key
        value = self._new[at]
        if value is UNSET:
            value = self._old[at]
            return default if value is None else value
        return default if value is GONE else as_read(value, self._state)

    def set(self, value: Any) -> None:
        """Replace the value: a scalar where the state has one column, else a tuple."""
        if value is None:
            msg = f"state {self._name!r} cannot be set to None; use clear()"
            raise ValueError(msg)
        self._new[self._cursor.key] = value

    def clear(self) -> None:
        """Remove the value."""
        self._cleared = True
        self._new[self._cursor.key] = GONE

    def forget(self, key: int) -> None:
        """Forget what was written for a key."""
        self._new[key] = UNSET

    def pieces(self, made: Made, keys: Sequence[Any], chosen: Sequence[int]) -> Iterator[Piece]:
        """Yield the rows of what was written for some keys."""
        name, owners, values = self._name, np.arange(len(self._new)), self._new
        if len(chosen) < len(values):
            owners, values = np.array(chosen, dtype=np.int64), [values[key] for key in chosen]
        owners, values = _some(owners, values, _each(is_not, values, UNSET))
        if self._cleared:
            gone = _each(is_, values, GONE)
            yield from self._ends(owners[gone])
            owners, values = _some(owners, values, ~gone)
        if values:
            yield Piece(
                state=name,
                owners=owners,
                entries=constant_entries(name, len(owners)),
                rows=constant_rows(name, len(owners)),
                untils=made.untils(self._state, len(owners)),
                values=made.stored(values, self._state, made.label(name, owners, keys)),
            )

    def _ends(self, cleared: IntArray) -> Iterator[Piece]:
        """Yield the ends of values that were there."""
        ended = [key for key in cleared.tolist() if self._old[key] is not None]
        if ended:
            yield Piece(
                state=self._name,
                owners=np.array(ended, dtype=np.int64),
                entries=constant_entries(self._name, len(ended)),
                rows=constant_rows(self._name, len(ended)),
                ends=True,
            )


def _each(test: Callable[[Any, Any], bool], values: list[Any], one: object) -> Mask:
    """Return for which values a test with one object holds."""
    return np.fromiter(map(test, values, repeat(one)), np.bool_, len(values))


def _some(owners: IntArray, values: list[Any], mask: Mask) -> tuple[IntArray, list[Any]]:
    if mask.all():
        return owners, values
    return owners[mask], list(compress(values, mask.tolist()))


def values_in(column: pa.Array, state: State) -> list[Any]:
    """Return what rows of a state hold as Python values: scalars, or NamedTuples for several columns."""
    columns: Columns = column.flatten()
    if len(state.columns) == 1:
        return python_values(columns[0], state.columns.names[0])
    return python_rows(columns, tuple(state.columns.names), len(column), "State")


def as_read(value: Any, state: State) -> Any:
    """Return a value that was written as it is read: a tuple of several columns is a NamedTuple."""
    names = tuple(state.columns.names)
    if len(names) == 1 or not isinstance(value, tuple | list) or len(value) != len(names):
        return value
    return row_type(names, "State")._make(value)


def stored_values(values: list[Any], state: State, what: Label) -> pa.Array:
    """Return values as the column of their state. Raises UserFunctionError."""
    fields = list(state.type.fields)
    if len(fields) == 1:
        columns = [column_of(values, fields[0], what)]
    else:
        check_tuples(values, fields, what)
        columns = columns_of(values, fields, what)
    return pa.StructArray.from_arrays(columns, fields=fields)
