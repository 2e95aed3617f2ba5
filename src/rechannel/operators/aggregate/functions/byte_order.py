"""Which row of each group holds the smallest or largest byte string, without sorting.

Eight bytes are compared at a time, as one big-endian number: per group the best number is found,
the rows that do not have it drop out, and the next eight bytes decide among the rest. With few ties
the first round settles nearly every group.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, buffer_items, validity

_WORD = 8


def extreme_rows(array: pa.Array, groups: Groups, *, largest: bool) -> pa.Array:
    """Row of the best value of each group (null where all values are null), for `Array.take`."""
    starts, lengths, data = _ranges(array)
    best = np.full(groups.count, -1, np.int64)
    valid = validity(array)
    rows = np.arange(groups.rows) if valid is None else np.flatnonzero(valid)
    owners = groups.ids[rows]
    at = 0
    while len(rows):
        words = _words(data, starts[rows] + at, lengths[rows] - at)
        rows, owners = _winners(words, rows, owners, largest=largest)
        rows, owners = _settle(rows, owners, lengths, best, at + _WORD, largest=largest)
        at += _WORD
    return pa.array(best, mask=best < 0)


def _ranges(array: pa.Array) -> tuple[IntArray, IntArray, npt.NDArray[np.uint8]]:
    """Start and length of each value, and the bytes with room for a whole word after the last."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offset_buffer, data_buffer = array.buffers()
    dtype = np.dtype(np.int64 if wide else np.int32)
    offsets = buffer_items(offset_buffer, dtype, array.offset, len(array) + 1).astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    data = np.zeros(size + _WORD, np.uint8)
    data[:size] = buffer_items(data_buffer, np.dtype(np.uint8), first, size)
    return offsets[:-1] - first, np.diff(offsets), data


def _words(
    data: npt.NDArray[np.uint8], starts: IntArray, lengths: IntArray
) -> npt.NDArray[np.uint64]:
    """Up to eight bytes of each value as a big-endian number, zeros after its end."""
    everywhere: npt.NDArray[np.uint64] = np.ndarray(
        (len(data) - _WORD + 1,), dtype=">u8", buffer=data, strides=(1,)
    )
    there = lengths > 0
    words = everywhere[np.where(there, starts, 0)].astype(np.uint64)
    surplus = (8 * (_WORD - np.clip(lengths, 1, _WORD))).astype(np.uint64)
    return np.where(there, (words >> surplus) << surplus, np.uint64(0))


def _winners(
    words: npt.NDArray[np.generic], rows: IntArray, owners: IntArray, *, largest: bool
) -> tuple[IntArray, IntArray]:
    """Rows (ordered by group) that hold their group's best word."""
    starts = np.flatnonzero(_firsts(owners))
    reduce = np.maximum if largest else np.minimum
    best = np.repeat(reduce.reduceat(words, starts), np.diff(np.append(starts, len(rows))))
    wins = words == best
    return rows[wins], owners[wins]


def _settle(
    rows: IntArray,
    owners: IntArray,
    lengths: IntArray,
    best: IntArray,
    compared: int,
    *,
    largest: bool,
) -> tuple[IntArray, IntArray]:
    """Note the answers of decided groups in `best`; rows of the undecided ones are returned.

    A group is decided when one row is left, or when all rows left end within the bytes compared:
    they then differ at most in trailing zero bytes, and the shorter one is the smaller.
    """
    firsts = _firsts(owners)
    starts = np.flatnonzero(firsts)
    sizes = np.diff(np.append(starts, len(rows)))
    ended = np.maximum.reduceat(lengths[rows], starts) <= compared
    decided = np.repeat(ended | (sizes == 1), sizes)
    final, final_owners = rows[decided], owners[decided]
    if len(final):
        final, final_owners = _winners(lengths[final], final, final_owners, largest=largest)
        best[final_owners] = final  # of equal values any will do
    return rows[~decided], owners[~decided]


def _firsts(owners: IntArray) -> Mask:
    """Where a group begins."""
    firsts = np.ones(len(owners), np.bool_)
    firsts[1:] = owners[1:] != owners[:-1]
    return firsts
