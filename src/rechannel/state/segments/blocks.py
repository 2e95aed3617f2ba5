"""Checksums of a file by blocks, stored inside the file, and checked no earlier than needed.

    data | trailer | footer

The data are divided into blocks, counted from the first byte of the file. The trailer contains the
XXH3-64 of every block, of the footer, and of itself, so that every byte of the file is covered:

    8 bytes per block  its checksum
    8 bytes per mark   from version 2 on: see `Trailer.marks`
    8                  length of the data
    8                  checksum of the footer
    8                  version of the format
    8                  checksum of the trailer up to here
    8                  "RCHNLSUM"

All numbers are little-endian and unsigned. The trailer is found from its end, where the footer
begins. A block has 1 MiB in version 1, and 64 KiB from version 2 on: if only some bytes of a file
are here, checking one value fetches one block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import xxhash

from rechannel.state.store import Ranges, Spans

BLOCK = 1 << 20
"""Bytes of data per checksum in version 1."""

FINE_BLOCK = 1 << 16
"""Bytes of data per checksum from version 2 on."""

_MAGIC = b"RCHNLSUM"
_FACTS = struct.Struct("<QQQ")
_SEAL = struct.Struct("<Q8s")
_END = _FACTS.size + _SEAL.size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trailer:
    """The contents of a trailer."""

    sums: npt.NDArray[np.uint64]
    """Checksum of every block. Shape (blocks,)."""
    data: int
    """Bytes of data."""
    footer: int
    """Checksum of the footer."""
    version: int
    """Format of the file."""
    marks: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """What the reader needs before it reads the data, as chosen by the writer. Shape (marks,);
    none in version 1.
    """
    digest: str = ""
    """Digest of the bytes of a trailer that was read, see `digest_of`."""

    @property
    def block(self) -> int:
        """Bytes of data per checksum."""
        return _block_size(self.version)

    @classmethod
    def of(
        cls,
        data: Sequence[memoryview],
        footer: Sequence[memoryview],
        *,
        version: int,
        marks: npt.NDArray[np.uint64] | None = None,
    ) -> Trailer:
        """Compute the checksums of a file that is still in pieces."""
        return cls(
            sums=_block_sums(data, _block_size(version)),
            data=sum(len(part) for part in data),
            footer=checksum(footer),
            version=version,
            marks=np.empty(0, dtype=np.uint64) if marks is None else marks,
        )

    def encode(self) -> bytes:
        """Return the trailer as bytes."""
        facts = _FACTS.pack(self.data, self.footer, self.version)
        body = self.sums.astype("<u8").tobytes() + self.marks.astype("<u8").tobytes() + facts
        return body + _SEAL.pack(xxhash.xxh3_64_intdigest(body), _MAGIC)

    @classmethod
    def decode(cls, file: memoryview, end: int) -> Trailer | None:
        """Read the trailer that ends at byte `end`; None if there is no intact one."""
        start = end - _END
        if start < 0:
            return None
        data, footer, version = _FACTS.unpack_from(file, start)
        seal, magic = _SEAL.unpack_from(file, end - _SEAL.size)
        if magic != _MAGIC or data > start:
            return None
        if xxhash.xxh3_64_intdigest(file[data : end - _SEAL.size]) != seal:
            return None
        words = np.frombuffer(file[data:start], dtype="<u8").astype(np.uint64, copy=False)
        blocks = -(-data // _block_size(version))
        return cls(
            sums=words[:blocks],
            data=data,
            footer=footer,
            version=version,
            marks=words[blocks:],
            digest=digest_of(file[data:end]),
        )

    @staticmethod
    def place(file: memoryview, end: int) -> int:
        """Return where the trailer that ends at byte `end` claims to begin, from its last 40
        bytes.
        """
        start = end - _END
        if start < 0:
            return 0
        data, _, _ = _FACTS.unpack_from(file, start)
        return min(int(data), start)


class BlockCheck:
    """The blocks of one file, and which of them were found good in this process.

    Threads may share it: at worst, a block is checked twice. If only some bytes of the file are
    here, a block is fetched before it is checked, and fetched again if it is wrong: the cache may
    be damaged while the file is intact.
    """

    def __init__(self, file: memoryview, trailer: Trailer, ranges: Ranges | None = None) -> None:
        """Start with nothing checked."""
        self.block = trailer.block
        self._bits = trailer.block.bit_length() + 2  # bits of position within a block
        self._data = file[: trailer.data]
        self._sums = trailer.sums
        self._good = np.zeros(len(trailer.sums), dtype=np.bool_)
        self._ranges = ranges
        self.complete = not len(trailer.sums)

    def span(self, start: int, stop: int) -> int | None:
        """Check the blocks of bytes [start, stop). Returns the first damaged block, or None."""
        if start >= stop:
            return None
        first, last = start // self.block, (stop - 1) // self.block
        if self._good[first : last + 1].all():
            return None
        return self._check(range(first, last + 1))

    def values(self, start: int, width: int, rows: npt.NDArray[np.int64]) -> int | None:
        """Check the blocks of some values of a buffer. Returns the first damaged block, or None.

        start: first byte of the buffer. width: bits of a value. rows: numbers of the values, in
        any order, not empty.
        """
        origin = start * 8
        shift = self._bits
        first = (origin + int(rows.min()) * width) >> shift
        last = (origin + (int(rows.max()) + 1) * width - 1) >> shift
        if self._good[first : last + 1].all():
            return None
        needed = np.zeros(last - first + 1, dtype=np.bool_)
        needed[((rows * width + origin) >> shift) - first] = True
        if origin % width or self.block * 8 % width:  # otherwise no value crosses a block boundary
            needed[((rows * width + (origin + width - 1)) >> shift) - first] = True
        return self._check((np.flatnonzero(needed) + first).tolist())

    def blocks_of(self, spans: Spans) -> npt.NDArray[np.int64]:
        """Return the blocks of byte spans, ascending. Empty spans have none. Shape (blocks,)."""
        spans = spans[spans[:, 0] < spans[:, 1]]
        count = len(self._sums)
        opened = np.bincount(spans[:, 0] // self.block, minlength=count + 1)
        closed = np.bincount((spans[:, 1] - 1) // self.block + 1, minlength=count + 1)
        return np.flatnonzero(np.cumsum(opened - closed)[:count])

    def bytes_of(self, blocks: npt.NDArray[np.int64]) -> Spans:
        """Return the bytes of each block. Shape (blocks, 2)."""
        starts = blocks * self.block
        return np.stack([starts, np.minimum(starts + self.block, len(self._data))], axis=1)

    def total(self, blocks: npt.NDArray[np.int64]) -> int:
        """Return the number of bytes in distinct blocks."""
        spans = self.bytes_of(blocks)
        return int((spans[:, 1] - spans[:, 0]).sum())

    @property
    def good(self) -> npt.NDArray[np.bool_]:
        """Which blocks were checked. Shape (blocks,)."""
        return self._good

    def blocks(self, blocks: npt.NDArray[np.int64]) -> int | None:
        """Check blocks. Returns the first damaged one, or None."""
        wanted = blocks[~self._good[blocks]]
        return self._check(wanted.tolist()) if len(wanted) else None

    def everything(self) -> list[int]:
        """Check every block, including those already checked. Returns all damaged ones."""
        return [block for block in range(len(self._sums)) if not self._matches(block)]

    def _check(self, blocks: Iterable[int]) -> int | None:
        blocks = [block for block in blocks if not self._good[block]]
        if self._ranges is not None:
            self._ranges.need(self.bytes_of(np.array(blocks, dtype=np.int64)))
        for block in blocks:
            if not self._matches(block) and not self._mended(block):
                return block
            self._good[block] = True
        self.complete = bool(self._good.all())
        return None

    def _mended(self, block: int) -> bool:
        if self._ranges is None:
            return False
        self._ranges.mend(block * self.block, min((block + 1) * self.block, len(self._data)))
        return self._matches(block)

    def _matches(self, block: int) -> bool:
        content = self._data[block * self.block : (block + 1) * self.block]
        return xxhash.xxh3_64_intdigest(content) == int(self._sums[block])


def digest_of(trailer: bytes | memoryview) -> str:
    """Return the XXH3-128 of a trailer, in hex. It identifies the file, since its checksums cover
    all other bytes.
    """
    return xxhash.xxh3_128_hexdigest(trailer)


def checksum(parts: Sequence[memoryview]) -> int:
    """Return the XXH3-64 of the concatenated parts."""
    hasher = xxhash.xxh3_64()
    for part in parts:
        hasher.update(part)
    return hasher.intdigest()


def _block_size(version: int) -> int:
    return BLOCK if version == 1 else FINE_BLOCK


def _block_sums(parts: Sequence[memoryview], size: int) -> npt.NDArray[np.uint64]:
    sums: list[int] = []
    hasher, filled = xxhash.xxh3_64(), 0
    for part in parts:
        at = 0
        if filled + len(part) < size:  # most pieces are small
            hasher.update(part)
            filled += len(part)
            continue
        while at < len(part):
            taken = min(size - filled, len(part) - at)
            hasher.update(part[at : at + taken])
            at, filled = at + taken, filled + taken
            if filled == size:
                sums.append(hasher.intdigest())
                hasher.reset()
                filled = 0
    if filled:
        sums.append(hasher.intdigest())
    return np.array(sums, dtype=np.uint64)
