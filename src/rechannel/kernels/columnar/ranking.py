"""Sort the rows of each key by some columns, and mark ties.

Each column becomes *codes*: integers from 0 in the wanted order, as close together as the values. The number of a row's
key, the codes of its columns and its position are packed into one 64-bit integer if they fit, and these integers are
sorted, which is several times faster than comparing row by row. Codes that take too many bits are made dense first.
Nulls come last and NaN just before them, in either direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import fast_take
from rechannel.model.buffers import IntArray, Mask, booleans, numbers, validity
from rechannel.model.hashing import keys_equal

Words = npt.NDArray[np.uint64]

_BITS = 64
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class Codes:
    """Integers below `count` whose order is that of the values they stand for."""

    values: Words
    count: int

    def dense(self) -> Codes:
        """Return codes in the same order without gaps."""
        order = np.argsort(self.values)
        ordered = self.values[order]
        number = np.zeros(len(order), dtype=np.uint64)
        number[1:] = np.cumsum(ordered[1:] != ordered[:-1])
        values = np.empty_like(number)
        values[order] = number
        return Codes(values, int(number[-1]) + 1 if len(number) else 1)

    def then(self, other: Codes, room: int) -> Codes:
        """Return codes that order by these and break ties by others. room: number of bits available."""
        one, two = self, other
        if not _fit(one.count * two.count, room):
            two = two.dense()
        if not _fit(one.count * two.count, room):
            one = one.dense()
        # Dense codes of fewer than 2^32 rows always fit into 64 bits.
        # Codes that take all 64 bits leave no room for others, which are then all 0.
        times = np.uint64(two.count % (1 << _BITS))
        return Codes(one.values * times + two.values, one.count * two.count)


def ordered(owners: IntArray, by: Sequence[Codes], places: IntArray) -> tuple[IntArray, Mask]:
    """Sort rows by key, then by columns, then by position.

    owners: number of each row's key. by: codes of each column. places: position of each row, a permutation of
    0..rows-1. All of shape (rows,). Returns the order, and which rows tie with the row before them in key and columns.
    """
    rows = len(owners)
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    width = (rows - 1).bit_length()
    codes = Codes(owners.astype(np.uint64), int(owners.max()) + 1)
    for column in by:
        codes = codes.then(column, _BITS - width)
    if not _fit(codes.count, _BITS - width):
        codes = codes.dense()
    at = np.empty(rows, dtype=np.int64)
    at[places] = np.arange(rows)
    if not _fit(codes.count, _BITS - width):
        order = np.lexsort((places, codes.values))
        sorted_codes = codes.values[order]
    else:
        low = np.uint64((1 << width) - 1)
        packed = (codes.values << np.uint64(width)) | places.astype(np.uint64)
        packed.sort()
        order = at[(packed & low).astype(np.int64)]
        sorted_codes = packed >> np.uint64(width)
    alike = np.zeros(rows, dtype=np.bool_)
    alike[1:] = sorted_codes[1:] == sorted_codes[:-1]
    return order, alike


def codes_of(column: pa.Array, *, descending: bool) -> Codes:
    """Return the codes of a column. Raises a pyarrow error for a type without an order."""
    kind, missing = column.type, None
    if pa.types.is_boolean(kind):
        words = booleans(column).astype(np.uint64)
    elif pa.types.is_unsigned_integer(kind):
        words = numbers(column).astype(np.uint64)
    elif pa.types.is_integer(kind) or (pa.types.is_temporal(kind) and kind.bit_width <= _BITS):
        words = numbers(column).astype(np.int64).view(np.uint64) ^ _SIGN
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        values = numbers(column).astype(np.float64) + 0.0
        missing = np.isnan(values)
        bits = values.view(np.uint64)
        words = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    else:
        return _compared(column, descending=descending)
    return _close(~words if descending else words, missing, validity(column))


def orderable(kind: pa.DataType) -> bool:
    """Return whether `codes_of` takes a type."""
    try:
        codes_of(pa.array([], kind), descending=False)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid):
        return False
    return True


def _close(words: Words, missing: Mask | None, valid: Mask | None) -> Codes:
    """Shift values to start at 0; NaN comes after all of them, null after NaN."""
    usable = np.ones(len(words), dtype=np.bool_) if valid is None else valid.copy()
    if missing is not None:
        usable &= ~missing
    whole = bool(usable.all())
    known = words if whole else words[usable]
    if not len(known):
        known = np.zeros(1, dtype=np.uint64)
    least, most = known.min(), known.max()
    count = int(most) - int(least) + 1
    values = words - least
    if whole:
        return Codes(values, count)
    if count + 2 > 1 << 62:
        close = Codes(np.where(usable, values, np.uint64(0)), count).dense()
        values, count = close.values, close.count
    if missing is not None:
        values = np.where(missing, np.uint64(count), values)
    if valid is not None:
        values = np.where(valid, values, np.uint64(count + 1))
    return Codes(values, count + 2)


def _compared(column: pa.Array, *, descending: bool) -> Codes:
    """Return codes of a type that Arrow has to sort and compare."""
    way = "descending" if descending else "ascending"
    table = pa.table({"c": column})
    order = pc.sort_indices(table, sort_keys=[("c", way)]).to_numpy().astype(np.int64)
    if not len(order):
        return Codes(np.empty(0, dtype=np.uint64), 1)
    values = fast_take(column, order)
    number = np.zeros(len(order), dtype=np.uint64)
    unlike = ~keys_equal([values.slice(1)], [values.slice(0, len(order) - 1)])
    number[1:] = np.cumsum(unlike)
    out = np.empty_like(number)
    out[order] = number
    return Codes(out, int(number[-1]) + 1)


def _fit(count: int, bits: int) -> bool:
    """Return whether integers below `count` fit into a number of bits."""
    return count - 1 < 1 << max(bits, 0)


def newest(by: Columns, owners: IntArray) -> IntArray:
    """Return the newest row of each owner, ascending: the largest by some columns, the last one of those that tie."""
    count = len(owners)
    codes = [codes_of(column, descending=True) for column in by]
    rows, _ = ordered(owners, codes, np.arange(count - 1, -1, -1, dtype=np.int64))
    first = np.flatnonzero(np.diff(owners[rows], prepend=-1))
    return np.sort(rows[first])
