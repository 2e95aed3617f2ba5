"""Files that are open at the same time, no more than a process may have, whatever the number of
partitions.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

import pyarrow as pa

MOST = 64
"""Maximum number of open files. A partition whose file was closed meanwhile continues in another
one.
"""


class BatchFile(Protocol):
    """An open file that takes batches."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...  # noqa: D102

    def __enter__(self) -> Self: ...

    def __exit__(self, *args: object) -> None: ...


class OpenFiles:
    """The files of one new directory, by subdirectory; the least recently written ones are closed."""

    def __init__(
        self, path: str, name: str, open_file: Callable[[str], BatchFile], most: int = MOST
    ) -> None:
        """Open nothing yet. name: pattern with a place for the number: "part-{:05d}.json"."""
        self._path = path
        self._name = name
        self._open = open_file
        self._most = most
        self._files: OrderedDict[str, BatchFile] = OrderedDict()
        self._numbers: Counter[str] = Counter()

    def of(self, where: str) -> BatchFile:
        """Return the open file of a directory."""
        if where in self._files:
            self._files.move_to_end(where)
            return self._files[where]
        while len(self._files) >= self._most:
            self._files.popitem(last=False)[1].__exit__(None, None, None)
        folder = Path(self._path, where)
        folder.mkdir(parents=True, exist_ok=True)
        file = self._open(f"{folder}/{self._name.format(self._numbers[where])}").__enter__()
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
