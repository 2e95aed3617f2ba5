"""Spill what a task cannot hold in memory to a file without a name, which ends with the task.

The file is unlinked when it is created, so its space is free again as soon as the process is gone, however it ended. It
is written once from start to end, then mapped. `release` gives back the memory of the pages that were read.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

ALIGNMENT = 64

Place = tuple[int, int]
"""Where bytes are in the file: offset and length."""


@dataclass
class Spool:
    """Bytes of one task on disk."""

    folder: str | None = None
    """Folder of the file; None means the one that Spark uses for temporary files of tasks."""
    size: int = 0
    """Bytes written so far, padding included."""
    _file: IO[bytes] | None = None
    _maps: list[mmap.mmap] = field(default_factory=list)

    def write(self, data: Any) -> Place:
        """Write a buffer and return where it is. Raises OSError if the disk is full."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(  # noqa: SIM115 - it ends with the task
                dir=self.folder or local_folder(), prefix="rechannel-spill-"
            )
        view = memoryview(data).cast("B")
        place = self.size, len(view)
        self._file.write(view)
        padding = -len(view) % ALIGNMENT
        self._file.write(bytes(padding))
        self.size += len(view) + padding
        return place

    def read(self, places: list[Place]) -> list[pa.Buffer]:
        """Map what was written. Pages are read when they are accessed."""
        if self._file is None or not self.size:
            return [pa.py_buffer(b"") for _ in places]
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        whole = pa.py_buffer(mapped)
        return [whole.slice(start, count) for start, count in places]

    def release(self) -> None:
        """Give back the memory of pages that were read. Later accesses read them again."""
        drop = getattr(mmap, "MADV_DONTNEED", None)
        if drop is not None:
            for mapped in self._maps:
                mapped.madvise(drop)

    def close(self) -> None:
        """Close the file. Mapped buffers stay readable while they are referenced."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._maps.clear()

    def __del__(self) -> None:
        """Close the file of a task that failed before it called `close`."""
        self.close()


def local_folder() -> str | None:
    """Return a folder on the host's own disk: the first writable one of Spark's, or None for the system's."""
    for name in ("SPARK_LOCAL_DIRS", "LOCAL_DIRS"):
        for folder in os.environ.get(name, "").split(","):
            if folder and Path(folder).is_dir() and os.access(folder, os.W_OK):
                return folder
    return None
