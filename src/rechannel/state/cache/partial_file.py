"""A file of which only some bytes are here: a sparse file in the cache, mapped.

    bytes of the file, in place | padding to 64 KiB | one byte per 64 KiB: whether it is here

Content and presence are in one file, so they can only vanish together. All processes of a host
write to it without locks: all writers of a block write the same bytes, and mark it present
afterwards. At worst, two of them fetch the same block.

The map is *private* (copy on write): writes of other processes are visible, and nothing written
through the map reaches the file. So if the file vanishes under a reader (evicted, deleted with its
directory, or the disk is full), the reader continues in memory of its own, in the same map, and
numpy's views of it stay valid. Files are written by `pwrite`, never through a map: a full disk is
then an error to handle, and does not kill the process.

After a power failure, the cache may contain wrong bytes. Blocks are checked against the checksums
in the segment anyway; `mend` fetches a block again.
"""
# ruff: noqa: PTH105, PTH108, PTH116

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rechannel.errors import DamagedStateError
from rechannel.state.cache.fetch_time import fetching
from rechannel.state.cache.mapped_files import open_map
from rechannel.state.store import Backing, FileFacts, Spans

PIECE = 1 << 16
"""Bytes that are either all present or all absent."""

_AT_ONCE = 8 << 20
"""Bytes per request; it bounds what two processes may fetch twice, and what is held in memory."""

SUFFIX = ".part"
"""Part of the name of every file of a cache, including those being written."""


class CacheFile:
    """`Ranges` in a file of the cache; in memory if there can be no such file."""

    def __init__(
        self, backing: Backing, key: str, facts: FileFacts, path: str, added: Callable[[int], None]
    ) -> None:
        """Open or make the file, or continue without one. added: called with the number of bytes
        written to it.
        """
        self._backing = backing
        self._key = key
        self._size = facts.size
        self._path = path
        self._added = added
        self._pieces = -(-facts.size // PIECE)
        self._identity, own = _open_private(path, self._length)
        self._own: mmap.mmap | None = own
        whole = memoryview(own)
        self.complete = bool(self._presence(whole).all())
        if self.complete and self._identity is not None:
            whole = self._shared() or whole
        self._here = self._presence(whole)
        self.view = whole[: facts.size].toreadonly()

    @property
    def _length(self) -> int:
        return self._pieces * PIECE + self._pieces

    def _presence(self, whole: memoryview) -> npt.NDArray[np.uint8]:
        return np.frombuffer(whole, np.uint8, self._pieces, self._pieces * PIECE)

    def _shared(self) -> memoryview | None:
        """Return a map of a complete file that keeps no descriptor open, unlike Python's own."""
        try:
            whole = open_map(self._path)
        except OSError:
            return None
        if self.gone():
            return None
        self._own = None
        return whole

    def need(self, spans: Spans) -> None:
        """Fetch the bytes that are not here. See `Ranges.need`."""
        missing = self._missing(spans)
        if len(missing):
            for run in _requests(missing):
                self._fetch([(a * PIECE, min(b * PIECE, self._size)) for a, b in run])

    def mend(self, start: int, stop: int) -> None:
        """Fetch bytes again that are here. See `Ranges.mend`."""
        pieces = np.arange(start // PIECE, -(-stop // PIECE))
        for run in _requests(pieces):
            spans = [(a * PIECE, min(b * PIECE, self._size)) for a, b in run]
            parts = self._fetch(spans)
            if self._own is not None:  # even if the map no longer follows the file
                for (first, last), part in zip(spans, parts, strict=True):
                    self._own[first:last] = bytes(part)

    def discard(self) -> None:
        """Delete the file, unless it has been replaced."""
        if not self.gone():
            _unlink(self._path)

    def gone(self) -> bool:
        """Return whether the file has been deleted or replaced."""
        return self._identity is None or _identity(self._path) != self._identity

    def used(self) -> None:
        """Mark the file as recently used."""
        with contextlib.suppress(OSError):  # deleted, which `gone` reports
            os.utime(self._path)

    def _missing(self, spans: Spans) -> npt.NDArray[np.int64]:
        spans = spans[spans[:, 0] < spans[:, 1]]
        opened = np.bincount(spans[:, 0] // PIECE, minlength=self._pieces + 1)
        closed = np.bincount((spans[:, 1] - 1) // PIECE + 1, minlength=self._pieces + 1)
        wanted = np.cumsum(opened - closed)[: self._pieces] > 0
        return np.flatnonzero(wanted & (self._here == 0))

    def _fetch(self, spans: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        with fetching(sum(stop - start for start, stop in spans)):
            parts = self._backing.fetch(self._key, spans)
            for (start, stop), part in zip(spans, parts, strict=True):
                if len(part) != stop - start:
                    msg = (
                        f"{self._key} ends before byte {stop} of {self._size}: it was truncated."
                        " Restore it from a copy of the state directory"
                    )
                    raise DamagedStateError(msg)
            written = self._write(spans, parts)
            if not written:
                self._hold(spans, parts)
        if written:
            self._added(sum(map(len, parts)))
        return parts

    def _write(self, spans: Sequence[tuple[int, int]], parts: Sequence[bytes | memoryview]) -> bool:
        """Write bytes to the file and mark them present; False if it cannot be written or was
        replaced.
        """
        if self._identity is None:
            return False
        try:
            descriptor = os.open(self._path, os.O_WRONLY)
            try:
                found = os.fstat(descriptor)
                if (found.st_dev, found.st_ino) != self._identity:
                    return False
                for (start, _), part in zip(spans, parts, strict=True):
                    _write_at(descriptor, part, start)
                for start, stop in spans:
                    first, last = start // PIECE, -(-stop // PIECE)
                    _write_at(descriptor, b"\1" * (last - first), self._pieces * PIECE + first)
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True

    def _hold(self, spans: Sequence[tuple[int, int]], parts: Sequence[bytes | memoryview]) -> None:
        """Write bytes to memory of this process, at their places in the file."""
        self._identity = None
        if self._own is None:
            return  # the file was complete: only `mend` gets here, and its caller checks again
        at = self._pieces * PIECE
        for (start, stop), part in zip(spans, parts, strict=True):
            self._own[start:stop] = bytes(part)
            first, last = start // PIECE, -(-stop // PIECE)
            self._own[at + first : at + last] = b"\1" * (last - first)


def write_whole(path: str, facts: FileFacts, parts: Sequence[memoryview]) -> bool:
    """Write a complete file to the cache; False if it cannot be written."""
    pieces = -(-facts.size // PIECE)
    temporary = _beside(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            at = 0
            for part in parts:
                at += _write_at(descriptor, memoryview(part).cast("B"), at)
            _write_at(descriptor, b"\1" * pieces, pieces * PIECE)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        _unlink(temporary)
        return False
    return True


def _beside(path: str) -> str:
    """Return a name next to a path that nothing else uses, not even a process of another
    container.
    """
    return f"{path}.{secrets.token_hex(8)}"


def _open_private(path: str, length: int) -> tuple[tuple[int, int] | None, mmap.mmap]:
    """Return identity and map of the file, which is made if it is absent; (None, memory) if that
    fails.
    """
    try:
        descriptor = _open_or_make(path, length)
        if os.fstat(descriptor).st_size != length:  # a power failure has cut it
            os.close(descriptor)
            _unlink(path)
            descriptor = _open_or_make(path, length)
        try:
            found = os.fstat(descriptor)
            if found.st_size == length > 0:
                return (found.st_dev, found.st_ino), mmap.mmap(
                    descriptor,
                    length,
                    flags=mmap.MAP_PRIVATE,
                    prot=mmap.PROT_READ | mmap.PROT_WRITE,
                )
        finally:
            os.close(descriptor)
    except OSError:
        pass  # no space, no permission, no descriptors left: the cache is an optimisation
    return None, mmap.mmap(-1, max(1, length))


def _open_or_make(path: str, length: int) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        pass
    temporary = _beside(path)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, length)
        os.link(temporary, path)
    except FileExistsError:
        os.close(descriptor)
        return os.open(path, os.O_RDONLY)
    except OSError:
        os.close(descriptor)
        raise
    finally:
        _unlink(temporary)
    return descriptor


def _requests(pieces: npt.NDArray[np.int64]) -> list[list[tuple[int, int]]]:
    """Return ascending pieces as runs [first, last), grouped into requests of limited size."""
    most = _AT_ONCE // PIECE
    return [_runs(pieces[at : at + most]) for at in range(0, len(pieces), most)]


def _runs(pieces: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(pieces) > 1) + 1
    firsts = pieces[np.concatenate(([0], edges))]
    lasts = pieces[np.concatenate((edges - 1, [len(pieces) - 1]))] + 1
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _write_at(descriptor: int, data: bytes | memoryview, at: int) -> int:
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done:], at + done)
    return done


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):  # another process was first
        os.unlink(path)
