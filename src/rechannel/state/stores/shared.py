"""A store that several hosts share, with a cache on each of them.

    backing: every byte, for all hosts, durable        (a mounted directory, or a bucket)
    cache:   some bytes of segments, for this host     (see `host_cache`)

A task that writes a segment puts it into the backing store and keeps a copy in its host's cache. A
task that reads one uses `ranges`, and fetches the bytes that it touches and that its host does not
have. Everything else (journal, sink buffers, the order of events) goes to the backing store
unchanged: `read` never uses the cache, so that what is verified is what is durable.

While a process has a segment open, or if it wrote it lately, it does not look it up in the backing
store again: segments never change, and the journal says whether one still counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rechannel.state.cache.host_cache import HostCache, cache_of
from rechannel.state.cache.open_files import Lru
from rechannel.state.cache.partial_file import CacheFile
from rechannel.state.keys import SEGMENTS
from rechannel.state.store import Backing, FileFacts, RangedStore

_FILES_KEPT = 1024


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

    def ranges(self, key: str) -> CacheFile:
        """Return a segment of which only some bytes are on this host. Raises MissingFileError."""
        cache = self._cache()
        at = (self, cache, key)
        file = _files.get(at)
        if file is None or file.gone():
            file = cache.open(self.backing, key, _written.get((self, key)))
            _files.put(at, file, lambda _, held: held.gone())
        file.used()
        return file

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key to the backing store, and a segment also to this host's cache."""
        if not key.startswith(SEGMENTS):
            self.backing.put(key, data)
            return
        facts = self.backing.write(key, data)
        if facts is None:
            return
        _written.put((self, key), facts, _never)
        parts = data if isinstance(data, list) else [memoryview(data)]
        self._cache().keep(facts, parts)

    def create(self, key: str, data: bytes) -> bool:
        """Write a key only if it is absent. See `Store.create`."""
        return self.backing.create(key, data)

    def delete(self, key: str) -> None:
        """Remove a key from the backing store. Caches evict it when they need room."""
        self.backing.delete(key)
        _written.discard((self, key))

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


def _never(*_: object) -> bool:
    """Return False: what was written stays known."""
    return False


_files: Lru[tuple[SharedStore, HostCache, str], CacheFile] = Lru(_FILES_KEPT)
_written: Lru[tuple[SharedStore, str], FileFacts] = Lru(_FILES_KEPT)
"""Of segments that this process wrote: a task that reads the run before asks nothing of the store."""
