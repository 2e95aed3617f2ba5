"""Folders of sinks in memory, and folders that fail on command: real file writers without a disk.

    disk = MemoryFolder()                      # outlives every driver, as a file system does
    folder = FaultyFolder(disk, [None, Fault(kind=FaultKind.AFTER)])   # one driver's way to it
    FileWriter(root="/out", ..., folder=folder, write=folder.write)
    disk.published("/out")                     # what a reader sees: rows by timestep

Every change (write, make, rename, remove, settle) takes the next item of the script, as in
`FaultyStore`. After a crash the folder is dead for the process that holds it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow as pa

from rechannel.errors import StorageError
from rechannel.sinks.files import missing
from rechannel.sinks.writer import Rows
from rechannel.state.stores.faulty import Crash, Fault, FaultKind

T = TypeVar("T")

SHOWN = "timestep="
"""Begins the names of directories that readers look into; others are hidden or not ours."""


class MemoryFolder:
    """A file system in memory: a `Folder` whose files are Arrow tables."""

    def __init__(self) -> None:
        """Start empty."""
        self.files: dict[str, pa.Table] = {}
        self.directories: set[str] = set()
        self.refused: set[str] = set()
        """Directories in which faulty folders refuse every change, until they are taken out."""

    def names(self, path: str) -> list[str]:
        """See `Folder.names`."""
        inside = f"{path}/"
        paths = [p for p in (*self.files, *self.directories) if p.startswith(inside)]
        return sorted({p.removeprefix(inside).partition("/")[0] for p in paths})

    def exists(self, path: str) -> bool:
        """See `Folder.exists`."""
        return path in self.directories

    def make(self, path: str) -> None:
        """See `Folder.make`."""
        while path and path not in self.directories:
            self.directories.add(path)
            path = path.rpartition("/")[0]

    def rename(self, source: str, target: str) -> bool:
        """See `Folder.rename`."""
        if target in self.directories:
            return False
        if source not in self.directories:
            raise missing(source)
        self.make(target.rpartition("/")[0])
        self.directories = {_moved(path, source, target) for path in self.directories}
        self.files = {_moved(path, source, target): rows for path, rows in self.files.items()}
        return True

    def remove(self, path: str) -> None:
        """See `Folder.remove`."""
        self.directories = {p for p in self.directories if not _within(p, path)}
        self.files = {p: rows for p, rows in self.files.items() if not _within(p, path)}

    def settle(self, path: str) -> None:
        """Memory is as durable as it gets."""

    def write(self, rows: Rows, path: str) -> int:
        """Write rows as one file of a new directory (`WriteRows`)."""
        return self.put(rows.table(), path)

    def put(self, rows: pa.Table, path: str) -> int:
        """Write a table as the file of a new directory; how many rows it has."""
        self.make(path)
        self.files[f"{path}/rows"] = rows
        return int(rows.num_rows)

    def published(self, root: str) -> dict[int, pa.Table]:
        """What a reader of a sink's path sees: rows by timestep. Hidden directories are passed over."""
        shown = [name for name in self.names(root) if name.startswith(SHOWN)]
        return {
            int(name.removeprefix(SHOWN)): pa.concat_tables(self._under(f"{root}/{name}"))
            for name in shown
        }

    def _under(self, path: str) -> list[pa.Table]:
        return [rows for name, rows in sorted(self.files.items()) if _within(name, path)]


class FaultyFolder:
    """One driver's way to a `MemoryFolder`, except where the script says otherwise.

    TORN: the process dies while rows are written and some stay; other changes did not happen.
    between: called before every change, where a test lets other threads of the driver go on.
    """

    def __init__(
        self,
        inner: MemoryFolder,
        script: Iterable[Fault | None] = (),
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Take one item of the script per change; when it ends, nothing fails any more."""
        self._inner = inner
        self._script = iter(script)
        self.between = between
        self.changes = 0
        self.crashed = False

    def names(self, path: str) -> list[str]:
        """See `Folder.names`."""
        self._alive()
        return self._inner.names(path)

    def exists(self, path: str) -> bool:
        """See `Folder.exists`."""
        self._alive()
        return self._inner.exists(path)

    def make(self, path: str) -> None:
        """`Folder.make`, subject to the injected faults."""
        self._change(path, lambda: self._inner.make(path))

    def rename(self, source: str, target: str) -> bool:
        """`Folder.rename`, subject to the injected faults."""
        return self._change(target, lambda: self._inner.rename(source, target))

    def remove(self, path: str) -> None:
        """`Folder.remove`, subject to the injected faults."""
        self._change(path, lambda: self._inner.remove(path))

    def settle(self, path: str) -> None:
        """`Folder.settle`, subject to the injected faults."""
        self._change(path, lambda: self._inner.settle(path))

    def write(self, rows: Rows, path: str) -> int:
        """Write rows as one file of a new directory (`WriteRows`)."""
        table = rows.table()

        def tear(kept: float) -> None:
            self._inner.put(table.slice(0, int(table.num_rows * kept)), path)

        return self._change(path, lambda: self._inner.put(table, path), tear)

    def _change(
        self, path: str, change: Callable[[], T], tear: Callable[[float], None] = lambda _: None
    ) -> T:
        self.between()
        self._alive()
        fault = next(self._script, None)
        self.changes += 1
        if any(_within(path, directory) for directory in self._inner.refused):
            fault = Fault(kind=FaultKind.FULL)
        if fault is None:
            return change()
        if fault.kind is FaultKind.FULL:
            msg = f"cannot write {path}: {os.strerror(errno.ENOSPC)} (scripted)"
            raise StorageError(msg)
        if fault.kind is FaultKind.AFTER:
            change()
        elif fault.kind is FaultKind.TORN:
            tear(fault.kept)
        self.crashed = True
        raise self._death()

    def _alive(self) -> None:
        if self.crashed:
            raise self._death()

    def _death(self) -> Crash:
        return Crash(f"the process died at its change number {self.changes} of a folder")


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _moved(path: str, source: str, target: str) -> str:
    return target + path.removeprefix(source) if _within(path, source) else path
