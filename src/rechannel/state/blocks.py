"""Checksums of a file by blocks, kept inside the file, checked no earlier than needed.

    data | trailer | footer

The data are cut into blocks of 1 MiB, counted from the first byte of the file. The trailer holds
the XXH3-64 of every block, of the footer, and of itself, so that every byte of the file is covered:

    8 bytes per block  its checksum
    8                  length of the data
    8                  checksum of the footer
    8                  version of the format
    8                  checksum of the trailer up to here
    8                  "RCHNLSUM"

All numbers are little-endian and unsigned. The trailer is found from its end, where the footer
begins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

BLOCK = 1 << 20
"""Bytes of data under one checksum."""

_MAGIC = b"RCHNLSUM"
_FACTS = struct.Struct("<QQQ")
_SEAL = struct.Struct("<Q8s")
_BITS = 23
"""Bit positions shifted right by this are block numbers."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trailer:
    """What the trailer says.

    sums: checksum of every block, shape (blocks,). data: bytes of data. footer: checksum of the
    footer. version: format of the file.
    """

    sums: npt.NDArray[np.uint64]
    data: int
    footer: int
    version: int

    @classmethod
    def of(
        cls, data: Sequence[memoryview], footer: Sequence[memoryview], *, version: int
    ) -> Trailer:
        """Compute the checksums of a file that is still in pieces."""
        return cls(
            sums=_block_sums(data),
            data=sum(len(part) for part in data),
            footer=checksum(footer),
            version=version,
        )

    def encode(self) -> bytes:
        """Write the trailer as bytes."""
        facts = _FACTS.pack(self.data, self.footer, self.version)
        body = self.sums.astype("<u8").tobytes() + facts
        return body + _SEAL.pack(xxhash.xxh3_64_intdigest(body), _MAGIC)

    @classmethod
    def decode(cls, file: memoryview, end: int) -> Trailer | None:
        """Read the trailer that ends at byte `end`; None when there is no intact one."""
        start = end - _SEAL.size - _FACTS.size
        if start < 0:
            return None
        data, footer, version = _FACTS.unpack_from(file, start)
        seal, magic = _SEAL.unpack_from(file, end - _SEAL.size)
        if magic != _MAGIC or data > start:
            return None
        if xxhash.xxh3_64_intdigest(file[data : end - _SEAL.size]) != seal:
            return None
        sums = np.frombuffer(file[data:start], dtype="<u8").astype(np.uint64, copy=False)
        return cls(sums=sums, data=data, footer=footer, version=version)


class BlockCheck:
    """The blocks of one file and which of them were found good in this process.

    Threads may share it: at worst a block is checked twice.
    """

    def __init__(self, file: memoryview, trailer: Trailer) -> None:
        """Start with nothing checked."""
        self._data = file[: trailer.data]
        self._sums = trailer.sums
        self._good = np.zeros(len(trailer.sums), dtype=np.bool_)
        self.complete = not len(trailer.sums)

    def span(self, start: int, stop: int) -> int | None:
        """Check the blocks behind bytes [start, stop); the first damaged block, or None."""
        if start >= stop:
            return None
        return self._check(range(start // BLOCK, (stop - 1) // BLOCK + 1))

    def values(self, start: int, width: int, rows: npt.NDArray[np.int64]) -> int | None:
        """Check the blocks behind some values of a buffer; the first damaged block, or None.

        start: first byte of the buffer. width: bits of a value. rows: numbers of the values, in
        any order, not empty.
        """
        origin = start * 8
        first = (origin + int(rows.min()) * width) >> _BITS
        last = (origin + (int(rows.max()) + 1) * width - 1) >> _BITS
        if self._good[first : last + 1].all():
            return None
        needed = np.zeros(last - first + 1, dtype=np.bool_)
        needed[((rows * width + origin) >> _BITS) - first] = True
        if origin % width or BLOCK * 8 % width:  # else no value lies across a border
            needed[((rows * width + (origin + width - 1)) >> _BITS) - first] = True
        return self._check((np.flatnonzero(needed) + first).tolist())

    def everything(self) -> list[int]:
        """Check every block, also those that were good before; all damaged ones."""
        return [block for block in range(len(self._sums)) if not self._matches(block)]

    def _check(self, blocks: Iterable[int]) -> int | None:
        for block in blocks:
            if not self._good[block]:
                if not self._matches(block):
                    return block
                self._good[block] = True
        self.complete = bool(self._good.all())
        return None

    def _matches(self, block: int) -> bool:
        content = self._data[block * BLOCK : (block + 1) * BLOCK]
        return xxhash.xxh3_64_intdigest(content) == int(self._sums[block])


def checksum(parts: Sequence[memoryview]) -> int:
    """XXH3-64 of the parts, one behind the other."""
    hasher = xxhash.xxh3_64()
    for part in parts:
        hasher.update(part)
    return hasher.intdigest()


def _block_sums(parts: Sequence[memoryview]) -> npt.NDArray[np.uint64]:
    sums: list[int] = []
    hasher, filled = xxhash.xxh3_64(), 0
    for part in parts:
        at = 0
        while at < len(part):
            taken = min(BLOCK - filled, len(part) - at)
            hasher.update(part[at : at + taken])
            at, filled = at + taken, filled + taken
            if filled == BLOCK:
                sums.append(hasher.intdigest())
                hasher.reset()
                filled = 0
    if filled:
        sums.append(hasher.intdigest())
    return np.array(sums, dtype=np.uint64)
