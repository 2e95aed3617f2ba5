"""The cache of a host: a bounded directory of partly present files, shared by all processes.

It may be deleted at any time, entirely or in part. Nothing in it is ever looked up by name alone:
a file's name includes the version of the original, so the copy of a replaced file is never found.
Copies of deleted segments are no longer used, so they are the first to be evicted.

The bound counts allocated bytes; half of what the disk has room for is one, too. A process enforces
it whenever it has fetched or written a sixteenth of the bound since its last check: the cache may
exceed it by that much per process, and by what deleted files that are still open occupy. A segment
larger than the bound is not kept.
"""
# ruff: noqa: PTH100, PTH108

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import xxhash

from rechannel.errors import RefusedError, one_sentence
from rechannel.logs import fields
from rechannel.state.cache.partial_file import SUFFIX, CacheFile, write_whole
from rechannel.state.owned import close_to_others, owned_folder, why_not_owned
from rechannel.state.store import Backing, FileFacts

VARIABLE = "RECHANNEL_CACHE_DIR"
"""Environment variable of a worker: the cache of its host, overriding the job's settings."""

_LOCK = ".lock"
_LOOK_AFTER = 16
"""A process checks the whole cache after it has added this fraction of the bound (its inverse)."""
_LEAVE = 0.9
"""Files are evicted until this fraction of the bound is used."""

_NOWHERE = f"{os.devnull}/none"
"""A path at which no file can exist."""

_LOG = logging.getLogger("rechannel")

_added: dict[str, float] = {}
_limits: dict[str, int] = {}
"""By directory, what its disk allowed at the last check."""
_told: set[str] = set()


@dataclass(frozen=True, slots=True)
class HostCache:
    """The cache in a directory.

    Problems with the directory never raise: the cache is an optimisation. A directory that other
    users can change is not used at all.
    """

    directory: str
    """Absolute, on a disk of the host."""
    limit: int
    """Bytes that may be kept."""

    def open(self, backing: Backing, key: str, known: FileFacts | None = None) -> CacheFile:
        """Return the file of a key, with whatever is here of it. Raises MissingFileError.

        known: its facts, as its writer knows them; None = ask the store.
        """
        facts = backing.facts(key) if known is None else known
        path = self._path(facts) if self._make() else _NOWHERE
        return CacheFile(backing, key, facts, path, self.added)

    def keep(self, facts: FileFacts, parts: Sequence[memoryview]) -> bool:
        """Keep what was just written. Returns whether it was kept."""
        if facts.size > self.limit or not self._make():
            return False
        kept = write_whole(self._path(facts), facts, parts)
        self.added(facts.size)
        return kept

    def added(self, size: int) -> None:
        """Count bytes that were added, and evict files if a check is due."""
        total = _added.get(self.directory, float("inf")) + size
        if total * _LOOK_AFTER < min(self.limit, _limits.get(self.directory, self.limit)):
            _added[self.directory] = total
            return
        _added[self.directory] = 0
        self.sweep()

    def sweep(self) -> int:
        """Delete the least recently used files until there is room. Returns the number of bytes
        freed.
        """
        try:
            descriptor = os.open(f"{self.directory}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return 0  # the directory does not exist, so the cache is empty
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._make_room()
        except OSError:
            return 0  # another process is evicting, or the directory has just been deleted
        finally:
            os.close(descriptor)

    def _make_room(self) -> int:
        files = sorted(self._files())
        total, freed = sum(size for _, size, _ in files), 0
        # The disk is Spark's, too: at most half of what is not used for other things.
        limit = min(self.limit, (total + shutil.disk_usage(self.directory).free) // 2)
        _limits[self.directory] = limit
        if total <= limit:
            return 0
        for _, size, path in files:
            if total - freed <= limit * _LEAVE:
                break
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            freed += size
        return freed

    def _files(self) -> list[tuple[int, int, str]]:
        """Return when each file was last used, the bytes it occupies, and its path."""
        found = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if SUFFIX not in entry.name:
                    continue  # not ours: the directory may be shared by mistake
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                found.append((facts.st_mtime_ns, facts.st_blocks * 512, entry.path))
        return found

    def _make(self) -> bool:
        """Return whether the directory exists and no other user can change its contents."""
        try:
            owned_folder(Path(self.directory))
        except OSError:
            return False  # fetched bytes then stay in memory
        except RefusedError as error:
            if self.directory not in _told:
                _told.add(self.directory)
                _LOG.warning(
                    "no cache is used on this host: %s",
                    one_sentence(error),
                    extra=fields("no_cache", reason=error),
                )
            return False
        return True

    def _path(self, facts: FileFacts) -> str:
        return f"{self.directory}/{xxhash.xxh3_128_hexdigest(facts.version.encode())}{SUFFIX}"


def cache_of(directory: str, limit: int) -> HostCache:
    """Return the cache of this process's host. `{uid}` in a name stands for the user of this
    process.
    """
    name = os.environ.get(VARIABLE) or directory
    return HostCache(os.path.abspath(name.replace("{uid}", str(os.getuid()))), limit)


def check_cache(directory: str) -> None:
    """Close an existing directory to other users.

    Raises RefusedError if it belongs to another user, or if others can write to it or replace it.
    """
    path = Path(cache_of(directory, 0).directory)
    with contextlib.suppress(OSError):
        why = why_not_owned(path)
        if why is not None:
            msg = (
                f"the cache {path} {why}: other users could change what tasks read from it. Delete it, or use"
                " another directory: Settings(cache=...), or RECHANNEL_CACHE_DIR on the host"
            )
            raise RefusedError(msg)
        close_to_others(path)
