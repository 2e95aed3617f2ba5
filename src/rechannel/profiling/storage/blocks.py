"""Rows that each last from one time to another, hundreds of millions of them: blocks in order of
arrival.

Every block knows the first start and the last end of its rows, so a query for a span of time reads
only the blocks that may overlap it. Rows that arrive nearly in order of time, as in logs and
traces, make blocks that hardly overlap. Up to `HELD` bytes of blocks stay in memory; beyond that,
all of them are in one temporary file, which is deleted with the object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import FileIO
from os import pread
from tempfile import TemporaryFile
from typing import Any
from weakref import finalize

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import Times
from rechannel.profiling.storage.temporary import writing

Rows = npt.NDArray[Any]

BLOCK_ROWS = 1 << 16
"""Rows of a block."""
HELD = 1 << 26
"""Bytes of blocks that stay in memory."""


class RowBlocks:
    """Rows of a numpy record type.

    start, end: names of the fields that say when a row starts and ends. held: bytes that stay in
    memory.
    """

    def __init__(self, kind: np.dtype[Any], start: str, end: str, held: int = HELD) -> None:
        self.kind = kind
        self._start, self._end, self._held = start, end, held
        self._open: list[Rows] = []
        self._closed: list[Rows] = []
        self._zones: list[tuple[int, int, int]] = []
        self._places: list[int] = []
        self._rows = 0
        self._file: FileIO | None = None

    def __len__(self) -> int:
        return self._rows + sum(len(part) for part in self._open)

    @property
    def spilled(self) -> bool:
        """Whether the rows are in a file."""
        return self._file is not None

    def add(self, rows: Rows) -> None:
        """Add rows; their order is kept."""
        self._open.append(rows)
        if sum(len(part) for part in self._open) >= BLOCK_ROWS:
            self._close()

    @property
    def span(self) -> tuple[int, int] | None:
        """The first start and the last end; None without rows."""
        self._close()
        if not self._zones:
            return None
        return min(first for first, *_ in self._zones), max(last for _, last, _ in self._zones)

    def meeting(self, start: int, end: int) -> Rows:
        """Return the rows that overlap [start, end], boundaries included, in their order."""
        return np.concatenate([np.empty(0, dtype=self.kind), *self.within(start, end)])

    def within(self, start: int, end: int) -> Iterator[Rows]:
        """Iterate over the same rows, block by block."""
        self._close()
        for number, (first, last, _) in enumerate(self._zones):
            if first > end or last < start:
                continue
            block = self._block(number)
            if first < start or last > end:
                block = block[(block[self._start] <= end) & (block[self._end] >= start)]
            yield block

    def each(self) -> Iterator[Rows]:
        """Iterate over all blocks."""
        self._close()
        return (self._block(number) for number in range(len(self._zones)))

    def before(
        self, times: Times, weights: Sequence[float] | None = None
    ) -> npt.NDArray[np.float64]:
        """Estimate how many rows lie before each of some times, as if the rows of a block were
        spread evenly.

        weights: of every block, if something other than rows is counted.
        """
        self._close()
        count = np.zeros(len(times))
        known = weights if weights is not None else [rows for *_, rows in self._zones]
        for (first, last, _), weight in zip(self._zones, known, strict=True):
            count += weight * np.clip((times - first) / max(1, last - first), 0, 1)
        return count

    def _close(self) -> None:
        """Make blocks of the rows that were added."""
        if not self._open:
            return
        added = np.concatenate(self._open)
        self._open = []
        for at in range(0, len(added), BLOCK_ROWS):
            block = added[at : at + BLOCK_ROWS]
            first, last = int(block[self._start].min()), int(block[self._end].max())
            self._places.append(self._rows)
            self._rows += len(block)
            self._zones.append((first, last, len(block)))
            self._closed.append(block)
        if self._file is not None or sum(block.nbytes for block in self._closed) > self._held:
            self._lay()

    def _lay(self) -> None:
        """Append what is in memory to the file."""
        with writing():
            if self._file is None:
                # Unbuffered: nothing is left to write when it is closed.
                self._file = TemporaryFile(prefix="rechannel-trace-", buffering=0)  # noqa: SIM115 - as long as the rows
                finalize(self, self._file.close)
            for block in self._closed:
                _write(self._file, block.tobytes())
        self._closed = []

    def _block(self, number: int) -> Rows:
        if self._file is None:
            return self._closed[number]
        at, rows = self._places[number], self._zones[number][2]
        size = self.kind.itemsize
        return np.frombuffer(pread(self._file.fileno(), rows * size, at * size), dtype=self.kind)


def _write(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
