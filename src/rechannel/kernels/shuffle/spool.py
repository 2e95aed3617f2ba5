"""What a task cannot hold in memory lies in a file of its own, which has no name and so ends with the task.

The file is unlinked when it is made: whatever becomes of the process, its room is free again when the process is gone.
It is written once, front to back, then mapped; pages that were looked at are given back with `release`.
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
"""Where bytes lie: the first of them, and how many."""


@dataclass
class Spool:
    """Bytes of one task that went to disk. folder: where; None = where Spark's own temporary files of the task go."""

    folder: str | None = None
    size: int = 0
    _file: IO[bytes] | None = None
    _maps: list[mmap.mmap] = field(default_factory=list)

    def write(self, data: Any) -> Place:
        """Write a buffer; where it lies from now on. Raises OSError when the disk is full."""
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
        """Map what was written: nothing is read before it is looked at."""
        if self._file is None or not self.size:
            return [pa.py_buffer(b"") for _ in places]
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), self.size, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        whole = pa.py_buffer(mapped)
        return [whole.slice(start, count) for start, count in places]

    def release(self) -> None:
        """Give back the memory of what was looked at; it is read again when it is looked at again."""
        drop = getattr(mmap, "MADV_DONTNEED", None)
        if drop is not None:
            for mapped in self._maps:
                mapped.madvise(drop)

    def close(self) -> None:
        """Let go of the file. What is mapped stays readable while it is held."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._maps.clear()

    def __del__(self) -> None:
        """A task that fails does not come to the end of what it does."""
        self.close()


def local_folder() -> str | None:
    """A folder on the host's own disk: the one that Spark has for this, or the system's."""
    for name in ("SPARK_LOCAL_DIRS", "LOCAL_DIRS"):
        for folder in os.environ.get(name, "").split(","):
            if folder and Path(folder).is_dir() and os.access(folder, os.W_OK):
                return folder
    return None
