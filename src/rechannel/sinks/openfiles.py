"""Files that are open at the same time, no more than a process may have, whatever the number of
partitions, each of a size that users choose.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import pyarrow as pa

from rechannel.errors import DataflowError

MOST = 64
"""Maximum number of open files. A partition whose file was closed meanwhile continues in another
one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSize:
    """When a file is full."""

    rows: int | None = None
    """Rows at most; None = any number."""
    bytes: int | None = None
    """Bytes, about; None = any number."""

    def __post_init__(self) -> None:
        """Check that files can have rows. Raises DataflowError."""
        for name, value in (("rows", self.rows), ("bytes", self.bytes)):
            if value is not None and value < 1:
                raise DataflowError(f"file_size: {name} must be at least 1, not {value}")

    def piece(self, batch: pa.RecordBatch, start: int, written: int) -> pa.RecordBatch:
        """Return the rows that a file gets next. written: rows that it has."""
        count = batch.num_rows - start
        if self.rows is not None:
            count = min(count, self.rows - written)
        if self.bytes is not None:  # before they are compressed
            count = min(count, max(1, batch.num_rows * self.bytes // max(1, 2 * batch.nbytes)))
        return batch.slice(start, count)

    def is_full(self, path: str, written: int) -> bool:
        """Return whether a file takes no more rows."""
        if self.rows is not None and written >= self.rows:
            return True
        return self.bytes is not None and Path(path).stat().st_size >= self.bytes


ANY_SIZE = FileSize()


class BatchFile(Protocol):
    """An open file that takes batches."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...  # noqa: D102

    def __enter__(self) -> Self: ...

    def __exit__(self, *args: object) -> None: ...


class OpenFiles:
    """The files of one new directory, by subdirectory; the least recently written ones are closed."""

    def __init__(
        self,
        path: str,
        name: str,
        open_file: Callable[[str], BatchFile],
        most: int = MOST,
        size: FileSize = ANY_SIZE,
    ) -> None:
        """Open nothing yet. name: pattern with a place for the number: "part-{:05d}.json"."""
        self._size = size
        self._paths: dict[str, str] = {}
        self._written: Counter[str] = Counter()
        self._path = path
        self._name = name
        self._open = open_file
        self._most = most
        self._files: OrderedDict[str, BatchFile] = OrderedDict()
        self._numbers: Counter[str] = Counter()

    def write(self, where: str, batch: pa.RecordBatch) -> None:
        """Append rows to the file of a directory, and to the next one when it is full."""
        start = 0
        while start < batch.num_rows:
            file = self.of(where)
            piece = self._size.piece(batch, start, self._written[where])
            file.write_batch(piece)
            start += piece.num_rows
            self._written[where] += piece.num_rows
            if self._size.is_full(self._paths[where], self._written[where]):
                self._files.pop(where).__exit__(None, None, None)

    def of(self, where: str) -> BatchFile:
        """Return the open file of a directory."""
        if where in self._files:
            self._files.move_to_end(where)
            return self._files[where]
        while len(self._files) >= self._most:
            self._files.popitem(last=False)[1].__exit__(None, None, None)
        folder = Path(self._path, where)
        folder.mkdir(parents=True, exist_ok=True)
        path = f"{folder}/{self._name.format(self._numbers[where])}"
        file = self._open(path).__enter__()
        self._paths[where], self._written[where] = path, 0
        self._numbers[where] += 1
        self._files[where] = file
        return file

    def __enter__(self) -> Self:
        """Write until the block ends."""
        return self

    def __exit__(self, *args: object) -> None:
        """Close all open files."""
        while self._files:
            self._files.popitem()[1].__exit__(*args)
