"""Arrow arrays as numpy arrays, and back, without copying if the memory allows it.

Arrow keeps a column as a buffer of numbers and a bitmap of which rows are not null. The kernels
want both as numpy arrays: the numbers (undefined under a null) and a mask, or None if nothing is
null.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]
"""Shape (rows,), one truth value per row."""

IntArray = npt.NDArray[np.int64]

_Scalar = TypeVar("_Scalar", bound=np.generic)


def storage(kind: pa.DataType) -> np.dtype[np.generic]:
    """Return the numpy type in which an Arrow type of fixed width is stored (not bool, not
    decimal).
    """
    if pa.types.is_floating(kind):
        letter = "f"
    elif pa.types.is_unsigned_integer(kind):
        letter = "u"
    else:
        letter = "i"
    return np.dtype(f"<{letter}{kind.bit_width // 8}")


def buffer_items(
    buffer: pa.Buffer | None, dtype: np.dtype[_Scalar], start: int, count: int
) -> npt.NDArray[_Scalar]:
    """Return items [start, start + count) of a buffer, zero-copy."""
    if count == 0 or buffer is None or buffer.size == 0:  # without rows, offsets may be missing
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count=count, offset=start * dtype.itemsize)


def numbers(array: pa.Array) -> npt.NDArray[np.generic]:
    """Return the numbers of a column of fixed width in its storage type, zero-copy; undefined
    under nulls.
    """
    return buffer_items(array.buffers()[1], storage(array.type), array.offset, len(array))


def booleans(array: pa.Array) -> Mask:
    """Return the values of a boolean column; undefined under nulls."""
    return _bits(array.buffers()[1], array.offset, len(array))


def validity(array: pa.Array) -> Mask | None:
    """Return which rows are not null, or None if no row is null."""
    if array.null_count == 0:
        return None
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    return _bits(array.buffers()[0], array.offset, len(array))


def _bits(buffer: pa.Buffer | None, start: int, count: int) -> Mask:
    if count == 0 or buffer is None:
        return np.zeros(count, np.bool_)
    first = start // 8
    packed = buffer_items(buffer, np.dtype(np.uint8), first, (start + count + 7) // 8 - first)
    bits = np.unpackbits(packed, bitorder="little")
    return bits[start - first * 8 :][:count].view(np.bool_)


def bitmap(mask: Mask | None) -> pa.Buffer | None:
    """Return Arrow's form of a mask; None (nothing is null) stays None."""
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def column(kind: pa.DataType, data: npt.NDArray[np.generic], valid: Mask | None = None) -> pa.Array:
    """Return a column of fixed width (not bool) over the memory of a numpy array of its storage
    type.
    """
    memory = pa.py_buffer(np.ascontiguousarray(data))
    return pa.Array.from_buffers(kind, len(data), [bitmap(valid), memory])


def boolean_column(data: Mask, valid: Mask | None = None) -> pa.Array:
    """Return a boolean column."""
    return pa.Array.from_buffers(pa.bool_(), len(data), [bitmap(valid), bitmap(data)])


def word_pairs(array: pa.Array) -> tuple[npt.NDArray[np.uint64], IntArray]:
    """Return the low and high 64 bits of a decimal128 column (two's complement), as zero-copy
    strided views.
    """
    words = buffer_items(
        array.buffers()[1], np.dtype(np.uint64), array.offset * 2, len(array) * 2
    ).reshape(-1, 2)
    return words[:, 0], words[:, 1].view(np.int64)


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Return where both masks hold; None means everywhere."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def list_offsets(array: pa.Array) -> IntArray:
    """Return the offsets of a (large) list or map column into its unsliced child. Shape (rows +
    1,).
    """
    narrow = not pa.types.is_large_list(array.type)
    dtype = np.dtype(np.int32 if narrow else np.int64)
    return buffer_items(array.buffers()[1], dtype, array.offset, len(array) + 1).astype(np.int64)


def ragged(starts: IntArray, lengths: IntArray) -> IntArray:
    """Join the ranges [start, start + length) into one array of positions, in order.

    >>> ragged(np.array([5, 0, 7]), np.array([2, 0, 3])).tolist()
    [5, 6, 7, 8, 9]
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()), dtype=np.int64)
