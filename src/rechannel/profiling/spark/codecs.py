"""Bytes of an event log as Spark compresses them.

The first bytes say what it is. Where they say nothing, the file name does, as in Spark (`.zstd`,
`.lz4`, `.snappy`, `.lzf`, and `.gz`, as others store logs):

- zstd: consecutive frames;
- lz4: blocks of lz4-java (`LZ4Block`, method, two lengths, checksum), which are not LZ4 frames;
- snappy: blocks of snappy-java (a header of 16 bytes, then length and block), which are not Snappy
  frames;
- lzf: chunks of compress-lzf (`ZV`, type, lengths);
- gz: consecutive members.

Data that ends within a block is still being written: its complete blocks are read. Lengths come
from the file, so they are checked before anything of that size is made.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from io import BufferedReader
from typing import Any

import cramjam
import numba as nb
import numpy as np
import zstandard

CHUNK = 1 << 20
"""Bytes that are read at once."""
LARGEST_BLOCK = 1 << 26
"""Bytes of the largest block that is read. Spark's are 32 KiB by default, lz4-java's at most 32 MiB."""


class BrokenStreamError(ValueError):
    """Bytes are not in the format of a codec. Its name is in the message."""


def unpacked(stream: BufferedReader, name: str) -> Iterator[bytes]:
    """Yield the contents of a stream in pieces; the stream is read once, and never rewound.

    name: of the file. Raises BrokenStreamError, OSError.
    """
    codec = _codec(stream.peek(16)[:16], name)
    try:
        yield from _CODECS.get(codec, _plain)(stream)
    except _BrokenError as error:
        msg = f"it does not hold {codec} as Spark writes it: {error}"
        raise BrokenStreamError(msg) from error


def _codec(head: bytes, name: str) -> str:
    """Return the key of a codec; "" for none."""
    if head.startswith(b"{"):
        return ""
    if head.startswith(b"PK\x03\x04"):
        msg = "it is a zip archive: unpack it first"
        raise BrokenStreamError(msg)
    known = next((codec for magic, codec in _MAGIC.items() if head.startswith(magic)), None)
    plain = name.removesuffix(".compact").removesuffix(".inprogress")
    return known or plain.rpartition(".")[2]


class _BrokenError(ValueError):
    """Bytes are not in the format of the codec that reads them."""


def _plain(stream: BufferedReader) -> Iterator[bytes]:
    while piece := stream.read(CHUNK):
        yield piece


def _gzip(stream: BufferedReader) -> Iterator[bytes]:
    member, left = zlib.decompressobj(wbits=31), b""
    try:
        while left := left or stream.read(CHUNK):
            yield member.decompress(left, CHUNK)
            left = member.unconsumed_tail
            if member.eof:
                # Zeros may fill up the last block of a medium.
                left = member.unused_data.lstrip(b"\0")
                member = zlib.decompressobj(wbits=31)
        yield member.flush()
    except zlib.error as error:
        raise _BrokenError(str(error)) from error


def _zstd(stream: BufferedReader) -> Iterator[bytes]:
    whole = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    try:
        while piece := whole.read(CHUNK):
            yield piece
    except zstandard.ZstdError as error:
        raise _BrokenError(str(error)) from error


def _lz4(stream: BufferedReader) -> Iterator[bytes]:
    head = struct.Struct("<8sBiiI")
    while len(header := stream.read(head.size)) == head.size:
        magic, token, packed, size, _ = head.unpack(header)
        if magic != b"LZ4Block":
            msg = f"a block begins with {magic!r}"
            raise _BrokenError(msg)
        data = stream.read(_length(packed))
        if len(data) < packed:
            return
        if packed:
            raw = token & 0xF0 == 0x10
            yield data if raw else _lz4_block(data, _length(size))


def _lz4_block(data: bytes, size: int) -> bytes:
    try:
        return bytes(cramjam.lz4.decompress_block(data, output_len=size))
    except cramjam.DecompressionError as error:
        raise _BrokenError(str(error)) from error


def _snappy(stream: BufferedReader) -> Iterator[bytes]:
    while len(header := stream.read(4)) == 4:
        if header == b"\x82SNA":
            rest = stream.read(12)
            if not rest.startswith(b"PPY\0"[: len(rest)]):
                msg = f"a header begins with {header + rest[:4]!r}"
                raise _BrokenError(msg)
            continue
        packed = _length(struct.unpack(">i", header)[0])
        data = stream.read(packed)
        if len(data) < packed:
            return
        try:
            _length(cramjam.snappy.decompress_raw_len(data))
            yield bytes(cramjam.snappy.decompress_raw(data))
        except cramjam.DecompressionError as error:
            raise _BrokenError(str(error)) from error


def _length(told: int) -> int:
    """Return a length that a block says of itself. Raises _BrokenError if it cannot be."""
    if not 0 <= told <= LARGEST_BLOCK:
        msg = f"a block has a length of {told:,} bytes"
        raise _BrokenError(msg)
    return told


def _lzf(stream: BufferedReader) -> Iterator[bytes]:
    while len(header := stream.read(5)) == 5:
        magic, kind, packed = struct.unpack(">2sBH", header)
        if magic != b"ZV":
            msg = f"a chunk begins with {magic!r}"
            raise _BrokenError(msg)
        size = struct.unpack(">H", stream.read(2).rjust(2, b"\0"))[0] if kind else packed
        data = stream.read(packed)
        if len(data) < packed:
            return
        if not kind:
            yield data
            continue
        out = np.empty(size, dtype=np.uint8)
        if _unlzf(np.frombuffer(data, dtype=np.uint8), out) != size:
            msg = "a chunk is not as long as it says"
            raise _BrokenError(msg)
        yield out.tobytes()


@nb.njit(cache=True, nogil=True)
def _unlzf(data: Any, out: Any) -> int:  # pragma: no cover - compiled
    """Undo LZF. Returns the number of bytes written, or -1 if the data is not LZF."""
    i, o = 0, 0
    while i < len(data):
        control = data[i]
        i += 1
        if control < 32:
            length = control + 1
            if i + length > len(data) or o + length > len(out):
                return -1
            for _ in range(length):
                out[o] = data[i]
                i += 1
                o += 1
            continue
        length = control >> 5
        if length == 7:
            if i >= len(data):
                return -1
            length += data[i]
            i += 1
        if i >= len(data):
            return -1
        back = o - ((control & 31) << 8) - data[i] - 1
        i += 1
        length += 2
        if back < 0 or o + length > len(out):
            return -1
        for _ in range(length):
            out[o] = out[back]
            back += 1
            o += 1
    return o


_CODECS: dict[str, Callable[[BufferedReader], Iterator[bytes]]] = {
    "zstd": _zstd,
    "zst": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
    "gz": _gzip,
}
_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"LZ4Block": "lz4",
    b"\x82SNAPPY\0": "snappy",
    b"ZV": "lzf",
}
