"""The store in a local (or mounted) directory.

- A file appears atomically: it is written under a temporary name in its own directory and then
  renamed (put) or linked (create). A link fails if the name exists, across any number of processes
  and hosts: that is create-if-absent.
- Readers map files into memory (see `cache.mapped_files`).
- Small records (`*.json`) are read, not mapped: they may be replaced, and there are many.

Paths are strings here, not `Path` objects: this is on the latency path of every task.
"""
# ruff: noqa: PTH103, PTH105, PTH108, PTH112, PTH116

from __future__ import annotations

import builtins
import errno
import itertools
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from rechannel.errors import DamagedStateError, MissingFileError, StorageError
from rechannel.state.cache.mapped_files import map_file
from rechannel.state.keys import check_key
from rechannel.state.store import FileFacts, Store
from rechannel.state.stores.refusals import refusal

T = TypeVar("T")

_TEMPORARY = ".tmp-"
_RECORD = ".json"
_PARTS_PER_WRITE = 512
_OPENINGS = 5
"""How often a file is opened at most that others replace meanwhile."""

_NO_SUCH_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)

_serial = itertools.count()


class _NotAFileError(OSError):
    """A path names something that cannot be read to an end."""


class Durability(StrEnum):
    """What survives once a write has returned.

    POWER: file and directory are synced: survives the loss of power.
    PROCESS: nothing is synced: survives the death of the process, not of the machine.
    """

    POWER = "power"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A store in the directory `root`, which is made on the first write. A value: pickled to
    workers.

    Raises StorageError, with the path and the free space, if the file system fails
    (NotPermittedError if waiting does not help); ValueError for a key that is not a relative path
    below the root.
    """

    root: Path
    durability: Durability = Durability.POWER

    def __post_init__(self) -> None:
        """Make the root absolute: workers run in other directories."""
        object.__setattr__(self, "root", Path(self.root).absolute())
        object.__setattr__(self, "durability", Durability(self.durability))

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return bytes [start, start + length) of a key. See `Store.read`."""
        path = self._path(key)
        try:
            whole = _fresh(lambda: _read_record(path) if key.endswith(_RECORD) else map_file(path))
        except OSError as error:
            raise self._refusal("read", path, error) from error
        return whole[start : None if length is None else start + length]

    def facts(self, key: str) -> FileFacts:
        """Return size and version of a file. See `Backing.facts`."""
        path = self._path(key)
        try:
            found = os.stat(path)
        except OSError as error:
            raise self._refusal("read", path, error) from error
        version = f"{path}\0{found.st_ino}\0{found.st_mtime_ns}\0{found.st_size}"
        return FileFacts(found.st_size, version)

    def fetch(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """Return copies of byte ranges. See `Backing.fetch`.

        Maps are not used here: if another host deletes a file of a network file system while its
        map is read, the process dies.
        """
        path = self._path(key)

        def parts() -> builtins.list[bytes | memoryview]:
            descriptor = _open_file(path, os.O_RDONLY)
            try:
                return [_read_span(descriptor, start, stop) for start, stop in spans]
            finally:
                os.close(descriptor)

        try:
            return _fresh(parts)
        except OSError as error:
            raise self._refusal("read", path, error) from error

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key atomically. See `Store.put`."""
        path = self._path(key)
        parts = data if isinstance(data, list) else [memoryview(data)]
        try:
            temporary = self._write_temporary(path, parts)
            try:
                os.replace(temporary, path)
            except OSError:
                _remove(temporary)
                raise
            self._settle(path)
        except OSError as error:
            raise self._refusal("write", path, error) from error

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        path = self._path(key)
        try:
            temporary = self._write_temporary(path, [memoryview(data)])
            try:
                won = _link(temporary, path)
            finally:
                _remove(temporary)
            if won:
                self._settle(path)
        except OSError as error:
            raise self._refusal("create", path, error) from error
        return won

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""
        path = self._path(key)
        try:
            _remove(path)
        except OSError as error:
            raise self._refusal("delete", path, error) from error

    def drop_folder(self, prefix: str) -> None:
        """Remove the folder of keys that begin with `prefix/`, if none is left."""
        path = self._path(prefix.rstrip("/"))
        try:
            os.rmdir(path)  # noqa: PTH106 - a path is a string here
        except OSError as error:
            if error.errno not in (*_NO_SUCH_FILE, errno.ENOTEMPTY, errno.EEXIST):
                raise self._refusal("delete", path, error) from error

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, ascending. Temporary files are not keys."""
        folder, _, start = prefix.rpartition("/")
        if folder:
            check_key(folder)
        return self._walk(folder + "/" if folder else "", start)

    def size(self, key: str) -> int:
        """Return the length of a key in bytes."""
        path = self._path(key)
        try:
            return os.stat(path).st_size
        except OSError as error:
            raise self._refusal("read", path, error) from error

    def settle(self, key: str) -> None:
        """Make the names in a key's folder durable, also those of files that others wrote.

        A file can be seen before the process that writes it has made its name durable.
        """
        path = self._path(key)
        try:
            self._settle(path)
        except OSError as error:
            raise self._refusal("write", path, error) from error

    def sweep_temporaries(self, before_s: float = math.inf) -> int:
        """Remove the files of crashed writers. See `Sweepable.sweep_temporaries`."""
        swept = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = f"{folder}/{name}"
                if name.startswith(_TEMPORARY) and _modified(path) < before_s:
                    _remove(path)
                    swept += 1
        return swept

    def _path(self, key: str) -> str:
        return f"{self.root}/{check_key(key)}"

    def _walk(self, folder: str, start: str) -> Iterator[str]:
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                # A directory sorts with its slash, so that keys ascend as strings across
                # directories.
                names = sorted(
                    entry.name + "/" if entry.is_dir() else entry.name
                    for entry in entries
                    if entry.name.startswith(start) and not entry.name.startswith(".")
                )
        except OSError as error:
            if error.errno in _NO_SUCH_FILE:
                return
            raise self._refusal("list", f"{self.root}/{folder}", error) from error
        for name in names:
            if name.endswith("/"):
                yield from self._walk(folder + name, "")
            else:
                yield folder + name

    def _write_temporary(self, path: str, parts: Sequence[memoryview]) -> str:
        descriptor, temporary = self._open_temporary(path.rpartition("/")[0])
        try:
            try:
                _write_all(descriptor, parts)
                if self.durability is Durability.POWER:
                    _sync(descriptor)
            finally:
                os.close(descriptor)
        except OSError:
            _remove(temporary)
            raise
        return temporary

    def _open_temporary(self, folder: str) -> tuple[int, str]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        while True:
            temporary = f"{folder}/{_TEMPORARY}{os.getpid()}-{next(_serial)}"
            try:
                return os.open(temporary, flags, 0o644), temporary
            except FileExistsError:
                # Left by a dead process, or in use on another host, with our process id.
                continue
            except FileNotFoundError:
                self._make(folder)

    def _make(self, folder: str) -> None:
        """Make a directory and its parents, each one durable in its parent."""
        parent = folder.rpartition("/")[0]
        if parent and not os.path.isdir(parent):
            self._make(parent)
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
            self._settle(folder)

    def _settle(self, path: str) -> None:
        """Make the name of a file or directory durable."""
        if self.durability is Durability.POWER:
            descriptor = os.open(path.rpartition("/")[0] or "/", os.O_RDONLY)
            try:
                _sync(descriptor)
            finally:
                os.close(descriptor)

    def _refusal(self, verb: str, path: str, error: OSError) -> StorageError | DamagedStateError:
        if isinstance(error, _NotAFileError):
            msg = (
                f"{path} is a directory, a pipe or something else instead of a file: restore the"
                " file from a copy of the state directory"
            )
            return DamagedStateError(msg)
        if error.errno in _NO_SUCH_FILE and error.errno != errno.ESTALE and verb == "read":
            missing = (
                f"{path} is missing. If the journal names it, restore it from a copy of the state"
                " directory; the job cannot continue without it"
            )
            return MissingFileError(missing)
        return refusal(verb, path, error, "Committed timesteps are safe.")


def directory_of(store: Store) -> LocalStore | None:
    """Return the directory in which a store, or its backing store, keeps its files; None if there
    is none.
    """
    found: object = store
    while found is not None and not isinstance(found, LocalStore):
        found = getattr(found, "backing", None)
    return found


def _fresh(read: Callable[[], T]) -> T:
    """Read, again if another host of a network file system has replaced the file meanwhile."""
    for _ in range(_OPENINGS):
        try:
            return read()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
    return read()


def _read_span(descriptor: int, start: int, stop: int) -> bytes:
    parts: list[bytes] = []
    while start < stop and (part := os.pread(descriptor, stop - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read_record(path: str) -> memoryview:
    with open(path, "rb", buffering=0, opener=_open_file) as file:
        return memoryview(file.readall())


def _open_file(path: str, flags: int) -> int:
    """Open a regular file, and nothing else: opening a pipe waits for a writer, and its bytes may
    never end.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _NotAFileError(path)
    return descriptor


def _write_all(descriptor: int, parts: Sequence[memoryview]) -> None:
    for at in range(0, len(parts), _PARTS_PER_WRITE):
        left = [
            memoryview(part).cast("B") for part in parts[at : at + _PARTS_PER_WRITE] if len(part)
        ]
        while left:
            written = os.writev(descriptor, left)
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]


def _link(temporary: str, path: str) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        # A network file system may repeat a link whose answer was lost: the existing name is then
        # ours.
        return os.stat(temporary).st_nlink > 1
    return True


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return math.inf  # its writer has just removed it


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        if error.errno not in _NO_SUCH_FILE:
            raise


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        import fcntl  # fsync stops at the drive's cache there

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
