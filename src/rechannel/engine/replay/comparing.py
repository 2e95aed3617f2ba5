"""Compare two tables as bags of rows. Pure.

Tables that are equal row by row are equal: that is so where the same logic runs again, because rows have a defined
order. Otherwise rows are compared by a 64-bit hash of all columns, as often as they occur. Values count as equal as
they do in keys: NaN equals NaN, and 0.0 equals -0.0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.model.hashing import HashArray, hash_columns

Chosen = npt.NDArray[np.bool_]
"""Which rows of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How two tables differ."""

    equal: int
    """Rows that both have."""
    left: pa.Table
    """Rows that only the first one has, in its order."""
    right: pa.Table
    """Rows that only the second one has."""


def difference(left: pa.Table, right: pa.Table) -> Difference:
    """Return how two tables differ. Columns with other names or types make all rows different."""
    if not left.schema.equals(right.schema):
        return Difference(equal=0, left=left, right=right)
    if left.equals(right):
        return Difference(equal=left.num_rows, left=left.slice(0, 0), right=right.slice(0, 0))
    of_left, of_right = row_hashes(left), row_hashes(right)
    places = np.unique(np.concatenate([of_left, of_right]), return_inverse=True)[1].reshape(-1)
    mine, theirs = places[: len(of_left)], places[len(of_left) :]
    both = np.minimum(*(np.bincount(side, minlength=len(places)) for side in (mine, theirs)))
    return Difference(
        equal=int(both.sum()),
        left=left.filter(pa.array(_beyond(mine, both))),
        right=right.filter(pa.array(_beyond(theirs, both))),
    )


def row_hashes(table: pa.Table) -> HashArray:
    """Return a hash of every row, over all columns. Shape (rows,)."""
    columns = [_hashable(column) for column in table.columns]
    if not columns:
        return np.zeros(table.num_rows, np.uint64)
    # The hash of a key passes over nulls: which columns are null is a column of its own.
    missing = [column.is_null() for column in columns]
    return hash_columns([*columns, *missing])


def examples(rows: pa.Table, most: int, most_bytes: int) -> tuple[dict[str, object], ...]:
    """Return the first rows, as many as are wanted and as fit; at least one, if there is one."""
    found: list[dict[str, object]] = []
    left = most_bytes
    for place in range(min(most, rows.num_rows)):
        row = rows.slice(place, 1)
        left -= row.nbytes
        if found and left < 0:
            break
        found += row.to_pylist()
    return tuple(found)


def _beyond(places: npt.NDArray[np.intp], both: npt.NDArray[np.intp]) -> Chosen:
    """Return which rows are more of their kind than both tables have: the later ones."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    begins = np.searchsorted(ordered, ordered, side="left")
    beyond = np.empty(len(places), np.bool_)
    beyond[order] = np.arange(len(places)) - begins >= both[ordered]
    return beyond


def _hashable(column: pa.ChunkedArray) -> pa.Array:
    """Return a column whose hash tells its values apart: nested values, in which nulls may be anywhere, as text."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # a table without batches
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if not pa.types.is_nested(array.type):
        try:
            hash_columns([array.slice(0, 0)])
        except DataflowError:
            pass
        else:
            return array
    texts = [None if value is None else repr(value) for value in array.to_pylist()]
    return pa.array(texts, pa.large_string())
