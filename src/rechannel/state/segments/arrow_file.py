"""An Arrow IPC file in pieces: written without copying column buffers, cut where the footer
begins.

The Arrow file format ends with the footer, its length (4 bytes, little-endian) and "ARROW1". It
begins with "ARROW1" and two zeros; then every message begins with 0xFFFFFFFF and the length of its
description (4 bytes each), and its values follow the description.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pyarrow as pa

_MAGIC = b"ARROW1"
_END = 4 + len(_MAGIC)
_FIRST_MESSAGE = 8
_PREFIX = struct.Struct("<II")
_CONTINUES = 0xFFFFFFFF

COPIED = 1 << 16
"""Batches of up to this many bytes are copied into one piece: that takes less time than to handle some twenty."""


class _Sink:
    """A file object that keeps what is written to it. Arrow passes column buffers without copying
    them.
    """

    closed = False

    def __init__(self) -> None:
        self.parts: list[memoryview] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        self.parts.append(memoryview(data).cast("B"))
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def in_pieces(*batches: pa.RecordBatch) -> list[memoryview]:
    """Return the bytes of an Arrow IPC file with these batches, at least one."""
    if sum(batch.nbytes for batch in batches) <= COPIED:
        whole = pa.BufferOutputStream()
        _write(whole, batches)
        return [memoryview(whole.getvalue())]
    sink = _Sink()
    _write(pa.PythonFile(sink, mode="w"), batches)
    return sink.parts


def _write(sink: pa.NativeFile, batches: Sequence[pa.RecordBatch]) -> None:
    with pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def head_end(file: memoryview, need: Callable[[int, int], None]) -> int:
    """Return the first byte of the values of a file with one batch: after its schema and the
    batch's description.

    need: called with the bytes [start, stop) before they are read. Returns 0 if the file does not
    begin like an Arrow file.
    """
    at = _FIRST_MESSAGE
    for _ in ("schema", "batch"):
        need(at, at + _PREFIX.size)
        if at + _PREFIX.size > len(file):
            return 0
        mark, length = _PREFIX.unpack_from(file, at)
        at += _PREFIX.size + length
        if mark != _CONTINUES or at > len(file):
            return 0
    need(0, at)
    return at


def footer_start(parts: Sequence[memoryview]) -> int:
    """Return the first byte of the footer of a file in pieces; 0 if it does not end like an Arrow
    file.
    """
    total = sum(map(len, parts))
    if total < _END:
        return 0
    end = b"".join(cut(parts, total - _END)[1])
    length = int.from_bytes(end[:4], "little")
    return total - _END - length if end[4:] == _MAGIC and length <= total - _END else 0


def cut(parts: Sequence[memoryview], at: int) -> tuple[list[memoryview], list[memoryview]]:
    """Cut a sequence of pieces at a byte, without copying. No piece is empty."""
    at = max(at, 0)
    pieces = [*filter(len, parts)]
    for number, piece in enumerate(pieces):
        if at < len(piece):
            left = [*pieces[:number], piece[:at]] if at else pieces[:number]
            return left, [piece[at:], *pieces[number + 1 :]]
        at -= len(piece)
    return pieces, []
