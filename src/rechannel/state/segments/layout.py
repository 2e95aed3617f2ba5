"""Where the values of a column are in a file: from rows to bytes.

A *layout* says which buffers contain the values of given rows. A value of fixed width is at its
row times the width. Strings and lists have one offset per row, and the offsets refer to a child
with rows of its own: the bytes of a string are rows of eight bits. Types with neither (views,
unions, maps) are taken whole.

Rows are given as spans, so that a range of a column and single rows are one case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.state.store import Spans

_BYTE = 8


@dataclass(frozen=True, slots=True)
class Buffer:
    """Bytes [start, stop) of the file."""

    start: int
    stop: int
    width: int | None
    """Bits of a value; None if the buffer cannot be divided by rows."""

    def spans(self, rows: Spans) -> Spans:
        """Return the bytes of rows. Shape (spans, 2) -> (spans, 2)."""
        if self.width is None:
            return np.array([[self.start, self.stop]], dtype=np.int64)
        bits = rows * self.width
        bits[:, 1] += _BYTE - 1
        return np.minimum(bits // _BYTE + self.start, self.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Buffers of a column, or of a part of one."""

    buffers: tuple[Buffer, ...] = ()
    """Buffers with one value per row."""
    offsets: Buffer | None = None
    """Where each row begins in the children, one more than there are rows; None if children have
    the same rows.
    """
    children: tuple[Layout, ...] = ()

    def spans(self, rows: Spans) -> Iterator[Spans]:
        """Yield the bytes of rows, without those of children that have other rows."""
        for buffer in self.buffers:
            yield buffer.spans(rows)
        if self.offsets is not None:
            yield self.offsets.spans(rows + np.array([0, 1]))
        else:
            for child in self.children:
                yield from child.spans(rows)

    def inner(self, file: memoryview, rows: Spans) -> Iterator[tuple[Layout, Spans]]:
        """Yield the children with rows of their own, and which of these rows; reads the offsets of
        `rows`.
        """
        if self.offsets is None:
            for child in self.children:
                yield from child.inner(file, rows)
            return
        kind = np.int32 if self.offsets.width == 32 else np.int64
        values = np.frombuffer(file[self.offsets.start : self.offsets.stop], dtype=kind)
        inner = values[rows].astype(np.int64)
        for child in self.children:
            yield child, inner


def layout_of(array: pa.Array, origin: int) -> Layout:
    """Return the layout of a column that is not sliced. origin: address of the first byte of the
    file.
    """
    kind = array.type
    placed = [_placed(buffer, origin) for buffer in array.buffers()]
    if pa.types.is_struct(kind):
        children = tuple(layout_of(array.field(i), origin) for i in range(kind.num_fields))
        return Layout(buffers=_sized(placed[:1], 1), children=children)
    if _has_bytes(kind) and placed[1] and placed[2]:
        inner = Layout(buffers=_sized(placed[2:], _BYTE))
        return Layout(
            buffers=_sized(placed[:1], 1), offsets=_offsets(kind, placed), children=(inner,)
        )
    if _has_items(kind) and placed[1]:
        return Layout(
            buffers=_sized(placed[:1], 1),
            offsets=_offsets(kind, placed),
            children=(layout_of(array.values, origin),),
        )
    width = width_of(kind)
    if width is None:
        return Layout(buffers=_sized(placed, None))
    return Layout(buffers=(*_sized(placed[:1], 1), *_sized(placed[1:], width)))


def width_of(kind: pa.DataType) -> int | None:
    """Return the bits of a value; None if values have no fixed width."""
    try:
        width: int = kind.bit_width
    except ValueError:
        return None
    return width


def _placed(buffer: pa.Buffer | None, origin: int) -> tuple[int, int] | None:
    if buffer is None or not buffer.size:
        return None
    start = buffer.address - origin
    return start, start + buffer.size


def _sized(places: list[tuple[int, int] | None], width: int | None) -> tuple[Buffer, ...]:
    return tuple(Buffer(*place, width) for place in places if place is not None)


def _offsets(kind: pa.DataType, places: list[tuple[int, int] | None]) -> Buffer | None:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    wide = large or pa.types.is_large_list(kind)
    return next(iter(_sized(places[1:2], 64 if wide else 32)), None)


def _has_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_binary(kind)
        or types.is_large_string(kind)
        or types.is_large_binary(kind)
    )


def _has_items(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))
