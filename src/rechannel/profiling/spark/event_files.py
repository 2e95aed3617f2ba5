"""The lines of an event log as Spark writes it: one file or a directory of rolled files, plain or
compressed.

The codec follows from the file name, as in Spark (`.zstd`, `.lz4`, `.snappy`, `.lzf`; with or
without `.inprogress`):

- zstd: consecutive frames;
- lz4: blocks of lz4-java (`LZ4Block`, method, two lengths, checksum), which are not LZ4 frames;
- snappy: blocks of snappy-java (a header of 16 bytes, then length and block), which are not Snappy
  frames;
- lzf: chunks of compress-lzf (`ZV`, type, lengths).

A log that ends within a block is still being written: its complete blocks are read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import cramjam
import numba as nb
import numpy as np
import zstandard

from rechannel.errors import TraceError

CHUNK = 1 << 20
"""Bytes that are read at once."""
_ROLLED = re.compile(r"events_(\d+)_")


def log_files(path: str | Path) -> list[Path]:
    """Return the files of a log, in order. Raises TraceError."""
    place = Path(path)
    if not place.exists():
        msg = f"event log {place} does not exist"
        raise TraceError(msg)
    if place.is_file():
        return [place]
    rolled = [(int(m[1]), file) for file in place.iterdir() if (m := _ROLLED.match(file.name))]
    if not rolled:
        msg = f"{place} is a directory without files events_1_..., events_2_..., ...: give the path of one event log"
        raise TraceError(msg)
    # A compacted file replaces all files up to its number.
    compacted = [number for number, file in rolled if file.name.endswith(".compact")]
    least = max(compacted, default=0)
    chosen = {
        number: file
        for number, file in sorted(rolled)
        if number > least or (file.name.endswith(".compact") and number == least)
    }
    return [chosen[number] for number in sorted(chosen)]


def log_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of all files of a log with their line breaks; the last one may have none.

    Raises TraceError.
    """
    for file in log_files(path):
        with file.open("rb") as stream:
            yield from _lines(_pieces(file, stream))


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    left = b""
    for piece in pieces:
        lines = (left + piece).split(b"\n")
        left = lines.pop()
        for line in lines:
            yield line + b"\n"
    if left:
        yield left


def _pieces(file: Path, stream: BinaryIO) -> Iterator[bytes]:
    name = file.name.removesuffix(".compact").removesuffix(".inprogress")
    codec = name.rpartition(".")[2] if "." in name else ""
    reader = _CODECS.get(codec, _plain)
    try:
        yield from reader(stream)
    except _BrokenError as error:
        msg = f"{file} does not hold {codec} as Spark writes it: {error}"
        raise TraceError(msg) from error


class _BrokenError(ValueError):
    """Bytes are not in the format of a codec."""


def _plain(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(CHUNK):
        yield piece


def _zstd(stream: BinaryIO) -> Iterator[bytes]:
    whole = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
    try:
        while piece := whole.read(CHUNK):
            yield piece
    except zstandard.ZstdError as error:
        raise _BrokenError(str(error)) from error


def _lz4(stream: BinaryIO) -> Iterator[bytes]:
    head = struct.Struct("<8sBiiI")
    while len(header := stream.read(head.size)) == head.size:
        magic, token, packed, size, _ = head.unpack(header)
        if magic != b"LZ4Block":
            msg = f"a block begins with {magic!r}"
            raise _BrokenError(msg)
        data = stream.read(packed)
        if len(data) < packed:
            return
        if packed:
            yield (
                data
                if token & 0xF0 == 0x10
                else _unpacked(cramjam.lz4.decompress_block, data, size)
            )


def _snappy(stream: BinaryIO) -> Iterator[bytes]:
    while len(header := stream.read(4)) == 4:
        if header == b"\x82SNA":
            if stream.read(4) != b"PPY\0" or len(stream.read(8)) < 8:
                return
            continue
        (packed,) = struct.unpack(">i", header)
        data = stream.read(packed) if packed > 0 else b""
        if len(data) < packed:
            return
        try:
            yield bytes(cramjam.snappy.decompress_raw(data))
        except cramjam.DecompressionError as error:
            raise _BrokenError(str(error)) from error


def _lzf(stream: BinaryIO) -> Iterator[bytes]:
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


def _unpacked(decompress: Callable[..., Any], data: bytes, size: int) -> bytes:
    try:
        return bytes(decompress(data, output_len=size))
    except cramjam.DecompressionError as error:
        raise _BrokenError(str(error)) from error


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


_CODECS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    "zstd": _zstd,
    "zst": _zstd,
    "lz4": _lz4,
    "snappy": _snappy,
    "lzf": _lzf,
}
