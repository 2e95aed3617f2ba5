"""The cache of a host: a directory of files of which some bytes are here, bounded, for all processes.

It may be deleted at any time, whole or in part. Nothing is ever looked up in it by name alone: a
file's name holds the version of what it was fetched from, so what was replaced is not found again.
Files of segments that are gone are not used any more, and so go first when room is made.

The bound is of allocated bytes. It is kept by the process that has fetched or written a sixteenth of it since
it last looked: it may be exceeded by that much per process, and by what open files that were deleted
still hold. A segment larger than the bound is not kept.
"""
# ruff: noqa: PTH100, PTH108

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from rechannel.errors import RefusedError
from rechannel.state.cache.partial_file import SUFFIX, CacheFile, write_whole
from rechannel.state.owned import close_to_others, owned_folder, why_not_owned
from rechannel.state.store import Backing, Facts

VARIABLE = "RECHANNEL_CACHE_DIR"
"""Environment variable of a worker: its host's cache, whatever the job's settings say."""

_LOCK = ".lock"
_LOOK_AFTER = 16
"""A process looks at the whole cache after it has added this fraction of the bound."""
_LEAVE = 0.9
"""Room is made until this fraction of the bound is used."""

_NOWHERE = f"{os.devnull}/none"
"""A path at which there can be no file."""

_LOG = logging.getLogger(__name__)

_added: dict[str, float] = {}
_told: set[str] = set()


@dataclass(frozen=True, slots=True)
class HostCache:
    """directory: absolute, on a disk of the host. limit: bytes that may be kept.

    Nothing here raises for what goes wrong with the directory: a cache is a help and no need. One that other users can
    change is not used at all.
    """

    directory: str
    limit: int

    def open(self, backing: Backing, key: str) -> CacheFile:
        """The file of a key, with what is here of it. Raises MissingFileError."""
        facts = backing.facts(key)
        path = self._path(facts) if self._make() else _NOWHERE
        return CacheFile(backing, key, facts, path, self.added)

    def keep(self, backing: Backing, key: str, parts: Sequence[memoryview]) -> bool:
        """Keep what was just written under a key; whether it is kept."""
        facts = backing.facts(key)
        if facts.size > self.limit or not self._make():
            return False
        kept = write_whole(self._path(facts), facts, parts)
        self.added(facts.size)
        return kept

    def added(self, size: int) -> None:
        """Count bytes that were added, and make room when it is time to look."""
        total = _added.get(self.directory, float("inf")) + size
        if total * _LOOK_AFTER < self.limit:
            _added[self.directory] = total
            return
        _added[self.directory] = 0
        self.sweep()

    def sweep(self) -> int:
        """Delete the least recently used files until there is room; the number of bytes freed."""
        try:
            descriptor = os.open(f"{self.directory}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return 0  # there is no directory, so there is nothing in it
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._make_room()
        except OSError:
            return 0  # another process is at it, or the directory has just been deleted
        finally:
            os.close(descriptor)

    def _make_room(self) -> int:
        files = sorted(self._files())
        total, freed = sum(size for _, size, _ in files), 0
        if total <= self.limit:
            return 0
        for _, size, path in files:
            if total - freed <= self.limit * _LEAVE:
                break
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            freed += size
        return freed

    def _files(self) -> list[tuple[int, int, str]]:
        """When each file was last used, the bytes it takes, and its path."""
        found = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if SUFFIX not in entry.name:
                    continue  # not ours: a directory may be shared by mistake
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append((facts.st_mtime_ns, facts.st_blocks * 512, entry.path))
        return found

    def _make(self) -> bool:
        """Whether there is a directory, and no other user can change what lies in it."""
        try:
            owned_folder(Path(self.directory))
        except OSError:
            return False  # files of the cache then stay in memory
        except RefusedError as error:
            if self.directory not in _told:
                _told.add(self.directory)
                _LOG.warning("no cache is used on this host: %s", error)
            return False
        return True

    def _path(self, facts: Facts) -> str:
        return f"{self.directory}/{xxhash.xxh3_128_hexdigest(facts.version.encode())}{SUFFIX}"


def cache_of(directory: str, limit: int) -> HostCache:
    """The cache of the host that this process runs on. `{uid}` in a name is the user of this process."""
    name = os.environ.get(VARIABLE) or directory
    return HostCache(os.path.abspath(name.replace("{uid}", str(os.getuid()))), limit)


def check_cache(directory: str) -> None:
    """Close a directory, if it is here, to other users.

    Raises RefusedError for one of another user, and for one that others can write to or exchange.
    """
    path = Path(cache_of(directory, 0).directory)
    with contextlib.suppress(OSError):
        why = why_not_owned(path)
        if why is not None:
            msg = (
                f"the cache {path} {why}: what tasks read from it could be anybody's. Delete it, or name another"
                " directory: Settings(cache=...), or RECHANNEL_CACHE_DIR on the host"
            )
            raise RefusedError(msg)
        close_to_others(path)
