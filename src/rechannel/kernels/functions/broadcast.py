"""The table of a broadcast input, as a user's function reads it: a mapping from key to row over Arrow columns.

A function that looks a few keys up needs no other rows as Python values, and no order; one that goes through all rows
does so for each of its keys. So a row that is looked up is converted by itself. All rows are converted and sorted once,
when they are gone through or many of them were looked up.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.ranking import codes_of, orderable, ordered
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.functions.python_rows import UnheldError, python_keys, python_rows

MANY = 16
"""All rows are converted as soon as one in 16 was looked up."""

ROW_BYTES, VALUE_BYTES, NESTED_BYTES = 256, 112, 400
"""What a row, a value and a value made of others take as Python objects, at most about, beside what they hold."""
WIDEST = 4
"""Bytes that a character may take in Python for one that it takes in Arrow."""


class BroadcastTable(Mapping[Any, Any]):
    """The current rows of a broadcast input, by their keys and in the order of these. It cannot be changed.

    A key is a scalar, or a tuple if there are several key columns; a row is a NamedTuple of all columns.
    """

    def __init__(self, rows: pa.RecordBatch, keys: int) -> None:
        """rows: one per key, key columns first, in any order. keys: number of key columns."""
        self._given, self._keys = rows, keys
        self._made: dict[int, Any] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in Arrow."""
        return int(self._given.nbytes)

    @property
    def held_bytes(self) -> int:
        """Bytes that it holds by now, at most about: the rows in Arrow, and what was converted to Python values."""
        done, count = vars(self), max(1, len(self))
        size = self.nbytes
        if "rows" in done and self.rows is not self._given:
            size += self.rows.nbytes
        if "_places" in done:
            size += _python_bytes(self._given.columns[: self._keys], len(self))
        made = len(self._made) + (len(self) if "_converted" in done else 0)
        return int(
            size + _python_bytes(self._given.columns, len(self)) * made / count if made else size
        )

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows by their keys, null last."""
        return _by_key(self._given, self._keys)

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key. Raises KeyError, UnheldError."""
        if len(self._made) * MANY > len(self):
            row = self._all[key]
            if key in self._gaps:
                raise UnheldError(self._gaps[key])
            return row
        place = self._places[key]
        if place not in self._made:
            self._made[place] = self._row(place)
        return self._made[place]

    def __contains__(self, key: object) -> bool:
        """Whether a key has a row."""
        return key in self._places

    def __iter__(self) -> Iterator[Any]:
        """Yield the keys in their order, null last."""
        return iter(self._all)

    def __len__(self) -> int:
        """Count the rows."""
        return int(self._given.num_rows)

    def values(self) -> ValuesView[Any]:
        """Return all rows in the order of their keys. Raises UnheldError."""
        return self._whole.values()

    def items(self) -> ItemsView[Any, Any]:
        """Return all keys and rows in their order. Raises UnheldError."""
        return self._whole.items()

    def __repr__(self) -> str:
        return f"<BroadcastTable: {len(self)} rows of {', '.join(self._given.schema.names)}>"

    # As Python values -----------------------------------------------------------------------------------------------

    @cached_property
    def _places(self) -> dict[Any, int]:
        """Where the row of each key is."""
        keys = _keys_of(self._given, self._keys)
        return dict(zip(keys, range(len(keys)), strict=True))

    def _row(self, place: int) -> Any:
        unheld: dict[int, str] = {}
        (row,) = _rows_of(self._given.slice(place, 1), unheld)
        if unheld:
            raise UnheldError(unheld[0])
        return row

    @cached_property
    def _converted(self) -> tuple[dict[Any, Any], dict[Any, str]]:
        """All rows by key, and the keys of rows with values that Python cannot represent, and why it cannot."""
        unheld: dict[int, str] = {}
        keys, rows = _keys_of(self.rows, self._keys), _rows_of(self.rows, unheld)
        return dict(zip(keys, rows, strict=True)), {keys[at]: why for at, why in unheld.items()}

    @property
    def _all(self) -> dict[Any, Any]:
        return self._converted[0]

    @property
    def _gaps(self) -> dict[Any, str]:
        return self._converted[1]

    @property
    def _whole(self) -> dict[Any, Any]:
        """All rows by key. Raises UnheldError."""
        for why in self._gaps.values():
            raise UnheldError(why)
        return self._all


def _keys_of(rows: pa.RecordBatch, keys: int) -> list[Any]:
    """Return one Python value per key. Raises TypeError for those that cannot be keys of a dict."""
    names = rows.schema.names[:keys]
    found = python_keys(rows.columns[:keys], names, rows.num_rows)
    try:
        set(map(hash, found))
    except TypeError as error:
        msg = (
            f"keys of a broadcast input are looked up in a dict, and those of {', '.join(names)} cannot be ({error}):"
            " key the table by a plain value, such as a string of it"
        )
        raise TypeError(msg) from error
    return found


def _rows_of(rows: pa.RecordBatch, unheld: dict[int, str]) -> list[Any]:
    columns: Columns = rows.columns
    made = python_rows(columns, tuple(rows.schema.names), rows.num_rows, unheld=unheld)
    if any(pa.types.is_nested(kind) for kind in rows.schema.types):
        return [type(row)._make(map(_frozen, row)) for row in made]
    return made


def _python_bytes(columns: Columns, rows: int) -> int:
    """Return the bytes of rows as Python values, at most about."""
    return rows * ROW_BYTES + sum(map(_values_bytes, columns))


def _values_bytes(column: pa.Array) -> int:
    if pa.types.is_map(column.type):
        parts = [column.keys, column.items]
    elif pa.types.is_struct(column.type):
        parts = column.flatten()
    elif pa.types.is_nested(column.type):
        parts = [column.flatten()]
    else:
        return int(len(column) * VALUE_BYTES + WIDEST * column.nbytes)
    return len(column) * NESTED_BYTES + sum(map(_values_bytes, parts))


def _frozen(value: Any) -> Any:
    """Return a value that cannot be changed: other keys and tasks of the process are given the same one."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(each) for key, each in value.items()})
    return value


def _by_key(rows: pa.RecordBatch, keys: int) -> pa.RecordBatch:
    """Sort rows by their keys; those with keys that have no order stay in the order of hashes."""
    columns, count = rows.columns[:keys], rows.num_rows
    if count < 2 or not all(orderable(column.type) for column in columns):
        return rows
    by = [codes_of(column, descending=False) for column in columns]
    order, _ = ordered(np.zeros(count, dtype=np.int64), by, np.arange(count, dtype=np.int64))
    return pa.RecordBatch.from_arrays(take(rows.columns, order), schema=rows.schema)
