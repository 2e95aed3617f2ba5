"""A store that several hosts share, with a cache on each of them.

    backing: every byte, for all hosts, durable        (a mounted directory, or a bucket)
    cache:   some bytes of segments, for this host     (see `host_cache`)

A task that writes a segment puts it into the backing store and keeps a copy in its host's cache. A
task that reads one uses `ranges`, and fetches the bytes that it touches and that its host does not
have. Everything else (journal, sink buffers, the order of events) goes to the backing store
unchanged: `read` never uses the cache, so that what is verified is what is durable.

A segment whose digest is known is not looked up in the backing store: it never changes, and the
journal says whether it still counts. Only journals that record no digests make its reader ask.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import dataclass

from rechannel.state.cache.host_cache import HostCache, cache_of
from rechannel.state.cache.open_files import Lru
from rechannel.state.cache.partial_file import CacheFile
from rechannel.state.store import Backing, FileFacts, RangedStore

_MOST_FILES = 1024


@dataclass(frozen=True, slots=True)
class SharedStore(RangedStore):
    """A store of several hosts. A value: pickled to workers, which use their own host's cache."""

    backing: Backing
    """Where everything is."""
    cache: str
    """Directory of the cache on every host; a worker's environment variable RECHANNEL_CACHE_DIR
    overrides it.
    """
    cache_bytes: int = 32 << 30
    """How much a host's cache may hold."""

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return bytes of the backing store. See `Store.read`."""
        return self.backing.read(key, start, length)

    def ranges(self, key: str, known: FileFacts | None = None) -> CacheFile:
        """Return a segment of which only some bytes are on this host. See `RangedStore.ranges`."""
        cache = self._cache()
        at = (self, cache, key)
        file = _files.get(at)
        if file is None or file.gone():
            file = cache.open(self.backing, key, known)
            _files.put(at, file, lambda _, held: held.gone())
        file.used()
        return file

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key to the backing store. See `Store.put`."""
        self.backing.put(key, data)

    def put_known(self, key: str, data: list[memoryview], known: FileFacts) -> None:
        """Write a segment to the backing store, and then to this host's cache. See `RangedStore.put_known`."""
        self.backing.put(key, data)
        self._cache().keep(known, data)

    def close_files(self) -> None:
        """Close the files that this process keeps open. See `RangedStore.close_files`."""
        _files.discard_all(lambda at: at[0] == self)

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        return self.backing.create(key, data)

    def delete(self, key: str) -> None:
        """Remove a key from the backing store. Caches evict it when they need room."""
        self.backing.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, in ascending order."""
        return self.backing.list(prefix)

    def size(self, key: str) -> int:
        """Return the length of a key in bytes."""
        return self.backing.size(key)

    @property
    def directory_here(self) -> str:
        """The cache's directory on this host, as this process sees it."""
        return self._cache().directory

    def _cache(self) -> HostCache:
        return cache_of(self.cache, self.cache_bytes)


def _files_kept() -> int:
    """Return how many files a process keeps: one of which some bytes are not here has a descriptor."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = allowed == resource.RLIM_INFINITY
    return _MOST_FILES if unlimited else max(1, min(_MOST_FILES, allowed // 4))


_files: Lru[tuple[SharedStore, HostCache, str], CacheFile] = Lru(_files_kept())
