"""What a function wrote in this call, as it would be read in a later one: of the declared types, and a copy.

What is stored has gone through Arrow: a FLOAT has lost bits, a time has a zone, a STRUCT is a dict. How often a key's
rows come in one timestep must not matter, so a value that was written is read the same before it is stored. And as
Python shares lists, what the function goes on to do to one that it read or wrote must not change what is kept, or what
it emitted before.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.python_rows import (
    Label,
    check_tuples,
    column_of,
    columns_of,
    python_rows,
    python_values,
    row_type,
)
from rechannel.operators.process.states import State

Alike = Callable[[Any], bool]
"""Whether a value would be read as it was written; it may say no where one would."""


class Reading:
    """How the values, elements or entries of one state are written and read."""

    __slots__ = ("_alike", "_row", "_state", "_types", "copied")

    def __init__(self, state: State) -> None:
        self._state = state
        types = state.columns.types
        self.copied: Callable[[Any], Any] | None = copied if any(map(can_change, types)) else None
        """What copies a value; None = values of the state cannot be changed in place."""
        self._row: Callable[[Any], Any] = row_type(tuple(state.columns.names), "State")._make
        self._alike = tuple(map(_alike, types))
        self._types = tuple(map(_plain, types))

    @property
    def plain(self) -> type | None:
        """Return the Python type whose values are read as they were written, if there is one column."""
        return self._types[0] if len(self._types) == 1 else None

    def read(self, value: Any) -> Any:
        """Return what was written as it will be read: a scalar where the state has one column, else a NamedTuple.

        What does not fit its column is returned unchanged: it fails when it is stored.
        """
        if len(self._alike) == 1:
            if self._alike[0](value):
                return value
        elif self._are_alike(value):
            return self._row(value)
        try:
            return values_in(stored_values([value], self._state, _unnamed), self._state)[0]
        except UserFunctionError:
            return value

    def _are_alike(self, values: Any) -> bool:
        """Whether it is a value of several columns, each of which would be read as it was written."""
        if not isinstance(values, tuple | list) or len(values) != len(self._alike):
            return False
        if tuple(map(type, values)) == self._types:
            return True
        each = zip(self._alike, values, strict=True)
        return all(value is None or alike(value) for alike, value in each)


def values_in(column: pa.Array, state: State) -> list[Any]:
    """Return what rows of a state hold as Python values: scalars, or NamedTuples for several columns."""
    columns = column.flatten()
    if len(state.columns) == 1:
        return python_values(columns[0], state.columns.names[0])
    return python_rows(columns, tuple(state.columns.names), len(column), "State")


def stored_values(values: list[Any], state: State, what: Label) -> pa.Array:
    """Return values as the column of their state. Raises UserFunctionError."""
    fields = list(state.type.fields)
    if len(fields) == 1:
        columns = [column_of(values, fields[0], what)]
    else:
        check_tuples(values, fields, what)
        columns = columns_of(values, fields, what)
    return pa.StructArray.from_arrays(columns, fields=fields)


def _unnamed(row: int) -> str:
    return f"value {row}"


# Copies -----------------------------------------------------------------------------------------------------------


def can_change(kind: pa.DataType) -> bool:
    """Whether Python values of a type can be changed in place: lists, dicts, and bytearrays for bytes."""
    return bool(kind.num_fields) or kind in (pa.binary(), pa.large_binary())


def emitting(fields: pa.Schema) -> Callable[[Any], Any]:
    """Return what makes of a row that a function emits one that it cannot change any more."""
    return copied if any(map(can_change, fields.types)) else _own


def _own(row: Any) -> Any:
    """Return a row of values that cannot be changed; a function may fill the same dict or list again."""
    return row.copy() if type(row) is dict or type(row) is list else row


def copied(value: Any) -> Any:
    """Return a value that shares nothing with this one that could be changed in place."""
    kind = type(value)
    if kind in _FIXED:
        return value
    if kind is list:
        return [copied(each) for each in value]
    if kind is dict:
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, tuple):
        made = tuple.__new__(kind, map(copied, value))
        return made if any(a is not b for a, b in zip(made, value, strict=True)) else value
    return deepcopy(value)


_FIXED = frozenset((type(None), bool, int, float, str, bytes, Decimal, date, datetime))


# Values that are read as they were written ------------------------------------------------------------------------


def _alike(kind: pa.DataType) -> Alike:
    """Return what tells that a value of a type goes through Arrow unchanged."""
    if pa.types.is_timestamp(kind):
        zone = UTC if kind.tz == "UTC" else None
        return lambda value: type(value) is datetime and value.tzinfo is zone
    if pa.types.is_decimal(kind):
        places = -kind.scale
        return lambda value: type(value) is Decimal and value.as_tuple().exponent == places
    plain = _plain(kind)
    return lambda value: type(value) is plain


def _plain(kind: pa.DataType) -> type | None:
    """Return the Python type whose values all go through Arrow unchanged, if they fit at all."""
    return next((plain for is_one, plain in _PLAIN if is_one(kind)), None)


_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pa.types.is_boolean, bool),
    (pa.types.is_integer, int),
    (pa.types.is_float64, float),
    (pa.types.is_string, str),
    (pa.types.is_date32, date),
)
