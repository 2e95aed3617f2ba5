"""A store that several hosts share, with a cache on each of them.

    backing: every byte, for all hosts, durable        (a mounted directory, or a bucket)
    cache:   some bytes of segments, for this host     (see `hostcache`)

A task that writes a segment puts it into the backing store and keeps a copy in its host's cache. One that
reads one asks for `ranges`, and fetches the bytes that it touches and that its host does not have.
Everything else (journal, outboxes, the order of events) is the backing store's, unchanged: `read`
never looks into the cache, so that what is verified is what is durable.

A segment is not looked up again in the backing store while a process has it open: it is never
changed, and a journal that names it is what says that it still counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from rechannel.errors import MissingFileError, StorageError
from rechannel.state.cache.host_cache import HostCache, cache_of
from rechannel.state.cache.open_files import Lru
from rechannel.state.cache.partial_file import CacheFile
from rechannel.state.keys import SEGMENTS
from rechannel.state.store import Backing

_FILES_KEPT = 1024


@dataclass(frozen=True, slots=True)
class SharedStore:
    """A store of several hosts. A value: pickled to workers, which use their own host's cache.

    backing: where everything is. cache: directory of the cache on every host; the environment variable
    RECHANNEL_CACHE_DIR of a worker goes before it. cache_bytes: how much a host's cache may hold.
    """

    backing: Backing
    cache: str
    cache_bytes: int = 32 << 30

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Bytes of the backing store. See `Store.read`."""
        return self.backing.read(key, start, length)

    def ranges(self, key: str) -> CacheFile:
        """A segment of which only some bytes are on this host. Raises MissingFileError."""
        cache = self._cache()
        at = (self, cache, key)
        file = _files.get(at)
        if file is None or file.gone():
            file = cache.open(self.backing, key)
            _files.put(at, file, lambda _, held: held.gone())
        file.used()
        return file

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key to the backing store, and a segment also to this host's cache."""
        self.backing.put(key, data)
        if key.startswith(SEGMENTS):
            parts = data if isinstance(data, list) else [memoryview(data)]
            with suppress(StorageError, MissingFileError):  # it is written; a copy is a help
                self._cache().keep(self.backing, key, parts)

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        return self.backing.create(key, data)

    def delete(self, key: str) -> None:
        """Remove a key from the backing store. Caches drop it when they need room."""
        self.backing.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, in ascending order."""
        return self.backing.list(prefix)

    def size(self, key: str) -> int:
        """Length of a key in bytes."""
        return self.backing.size(key)

    @property
    def directory_here(self) -> str:
        """The cache's directory on this host, as this process is told."""
        return self._cache().directory

    def _cache(self) -> HostCache:
        return cache_of(self.cache, self.cache_bytes)


_files: Lru[tuple[SharedStore, HostCache, str], CacheFile] = Lru(_FILES_KEPT)
