"""How far the records of a batch are read: a position per record, all of which advance field by field.

What numpy cannot decide makes a record *unsure*: its position stays within it, what is made of it counts for nothing,
and it is read again by itself. So no record touches the bytes of another, whatever its own are.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa

Rows: TypeAlias = slice | np.ndarray
"""Records of a batch: all of them, or their places."""
ALL = slice(None)

PAD = 16
"""Zeros after the last record, so that a word can be read anywhere."""
LONGEST = 10
"""Most bytes of a whole number."""
_MORE = np.uint64(0x8080808080808080)
_SQUEEZES = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
"""Take the highest bit out of each byte of a word: of pairs of bytes, then of pairs of those, then of the word."""


class Front:
    """The records, where each is read next, and which of them are unsure."""

    def __init__(self, values: pa.Array, head: int) -> None:
        """Begin. values: binaries without nulls. head: bytes before each record."""
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
        raw = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        bounds = offsets.astype(np.int64) - offsets[0]
        self.data = np.concatenate([raw, np.zeros(PAD, np.uint8)])
        self.buffer = pa.py_buffer(self.data)
        self.ends = bounds[1:]
        self.at = np.minimum(bounds[:-1] + head, self.ends)
        self.unsure = np.zeros(len(values), bool)

    def doubt(self, rows: Rows, which: np.ndarray) -> None:
        """Make records unsure. which: a boolean for each of `rows`."""
        if which.any():
            self.unsure[rows] |= which

    def numbers(self, rows: Rows) -> np.ndarray:
        """Read a whole number of each record, as int64."""
        at = self.at[rows]
        first = self.data[at]
        if not (first & 0x80).any():
            self._advance(rows, at + 1)
            return _unzigzag(first.astype(np.uint64))
        words = self.words(at)
        last = ~words & _MORE
        long = last == 0
        held = last ^ (last - np.uint64(1))  # all bits up to the end of the last byte
        words &= held & ~_MORE
        for low, high, shift in _SQUEEZES:
            words = (words & low) | ((words & high) >> shift)
        sizes = np.bitwise_count(held).astype(np.int64) >> 3
        if long.any():
            self._long(rows, at, long, words, sizes)
        self._advance(rows, at + sizes)
        return _unzigzag(words)

    def _long(
        self, rows: Rows, at: np.ndarray, long: np.ndarray, words: np.ndarray, sizes: np.ndarray
    ) -> None:
        """Read the numbers of more than eight bytes into `words`."""
        each = self.data[at[long, None] + np.arange(LONGEST)].astype(np.uint64)
        nine, ten = each[:, 8] < 0x80, each[:, 9] <= 1
        used = np.where(np.arange(LONGEST) < np.where(nine, 9, LONGEST)[:, None], each, 0)
        shifts = np.arange(0, 7 * LONGEST, 7, dtype=np.uint64)
        words[long] = ((used & np.uint64(0x7F)) << shifts).sum(axis=1, dtype=np.uint64)
        sizes[long] = np.where(nine, 9, LONGEST)
        odd = np.zeros(len(at), bool)
        odd[long] = ~nine & ~ten
        self.doubt(rows, odd)

    def words(self, at: np.ndarray, kind: str = "<u8") -> np.ndarray:
        """Return what lies at some positions, which may be odd ones. kind: of numpy, at most eight bytes."""
        anywhere: np.ndarray = np.ndarray((len(self.data) - 8,), kind, self.data, strides=(1,))
        found: np.ndarray = anywhere[at]
        return found

    def fixed(self, rows: Rows, size: int) -> np.ndarray:
        """Pass a number of bytes of each record, and return where they began."""
        at: np.ndarray = self.at[rows].copy()
        self._advance(rows, at + size)
        return at

    def spans(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """Pass bytes that stand after their number, and return where they begin and end."""
        sizes = self.numbers(rows)
        starts = self.at[rows].copy()
        odd = (sizes < 0) | (sizes > self.ends[rows] - starts)
        self.doubt(rows, odd)
        ends = starts + np.where(odd, 0, sizes)
        self.at[rows] = ends
        return starts, ends

    def blobs(self, starts: np.ndarray, ends: np.ndarray) -> pa.Array:
        """Return the bytes between positions that ascend, as binaries."""
        if not len(starts):
            return pa.array([], pa.binary())
        bounds = np.empty(2 * len(starts), np.int32)
        bounds[0::2], bounds[1::2] = starts, ends
        # Every other value is what lies between two of them.
        buffers = [None, pa.py_buffer(bounds), self.buffer]
        both = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
        return both.take(pa.array(np.arange(0, len(bounds) - 1, 2)))

    def finish(self) -> None:
        """Make records unsure that have bytes left."""
        self.doubt(ALL, self.at != self.ends)

    def _advance(self, rows: Rows, to: np.ndarray) -> None:
        ends = self.ends[rows]
        self.doubt(rows, to > ends)
        self.at[rows] = np.minimum(to, ends)


def _unzigzag(words: np.ndarray) -> np.ndarray:
    one = np.uint64(1)
    found: np.ndarray = (words >> one).view(np.int64) ^ -(words & one).view(np.int64)
    return found
