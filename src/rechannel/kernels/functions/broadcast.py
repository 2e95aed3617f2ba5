"""The table of a broadcast input, as a user's function reads it: a mapping from key to row over Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.ranking import codes_of, orderable, ordered
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.functions.python_rows import LazyColumns, python_keys


class BroadcastTable(Mapping[Any, Any]):
    """The current rows of a broadcast input, by their keys and in the order of these. It cannot be changed.

    A key is a scalar, or a tuple if there are several key columns; a row is a NamedTuple of all columns. A column
    becomes Python values when a function first asks for them.
    """

    def __init__(self, rows: pa.RecordBatch, keys: int) -> None:
        """rows: one per key, key columns first. keys: number of key columns."""
        self._keys = keys
        self.rows = _by_key(rows, keys)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in Arrow."""
        return int(self.rows.nbytes)

    @cached_property
    def _places(self) -> dict[Any, int]:
        names, columns = self.rows.schema.names[: self._keys], self.rows.columns[: self._keys]
        keys = python_keys(columns, names, self.rows.num_rows)
        try:
            return dict(zip(keys, range(len(keys)), strict=True))
        except TypeError as error:
            msg = (
                f"keys of a broadcast input are looked up in a dict, and of {', '.join(names)} they cannot be"
                f" ({error}): key the table by a plain value, such as a string of it"
            )
            raise TypeError(msg) from error

    @cached_property
    def _columns(self) -> LazyColumns:
        return LazyColumns(self.rows.columns, tuple(self.rows.schema.names))

    def __getitem__(self, key: Any) -> Any:
        """Return the row of a key. Raises KeyError."""
        return self._columns.at(self._places[key])

    def __contains__(self, key: object) -> bool:
        """Whether a key has a row."""
        return key in self._places

    def __iter__(self) -> Iterator[Any]:
        """Yield the keys in their order, null last."""
        return iter(self._places)

    def __len__(self) -> int:
        """Count the rows."""
        return int(self.rows.num_rows)

    def __repr__(self) -> str:
        return f"<BroadcastTable: {len(self)} rows of {', '.join(self.rows.schema.names)}>"


def _by_key(rows: pa.RecordBatch, keys: int) -> pa.RecordBatch:
    """Sort rows by their keys; those with keys that have no order stay in the order of hashes."""
    columns, count = rows.columns[:keys], rows.num_rows
    if count < 2 or not all(orderable(column.type) for column in columns):
        return rows
    by = [codes_of(column, descending=False) for column in columns]
    order, _ = ordered(np.zeros(count, dtype=np.int64), by, np.arange(count, dtype=np.int64))
    return pa.RecordBatch.from_arrays(take(rows.columns, order), schema=rows.schema)
