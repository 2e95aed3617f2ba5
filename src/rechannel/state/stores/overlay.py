"""A store over another one that is only read: what is written goes to a store of its own.

A replay runs on an overlay over the state directory of a job. Tasks read the state of then through
it, and what they write is gone with the upper store.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby

from rechannel.errors import MissingFileError, NotPermittedError
from rechannel.state.store import (
    FileFacts,
    RangedStore,
    Ranges,
    Store,
    close_files,
    put_known,
    ranges_of,
)


@dataclass(frozen=True, slots=True)
class OverlayStore(RangedStore):
    """Reads `upper` first, then `lower`; writes to `upper` only. A value, as its parts are: pickled to workers.

    A key of `lower` cannot be deleted, and `delete` raises NotPermittedError for it.
    """

    upper: Store
    lower: Store

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Return bytes [start, start + length) of a key. See `Store.read`."""
        with suppress(MissingFileError):
            return self.upper.read(key, start, length)
        return self.lower.read(key, start, length)

    def ranges(self, key: str, known: FileFacts | None = None) -> Ranges | None:
        """Return a file in parts, if the store that has it fetches parts. See `RangedStore`."""
        return ranges_of(self.upper if self._is_above(key) else self.lower, key, known)

    def put_known(self, key: str, data: list[memoryview], known: FileFacts) -> None:
        """Write to `upper`. See `RangedStore.put_known`."""
        put_known(self.upper, key, data, known)

    def close_files(self) -> None:
        """Close the files of both stores. See `RangedStore.close_files`."""
        close_files(self.upper)
        close_files(self.lower)

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key to the upper store. See `Store.put`."""
        self.upper.put(key, data)

    def create(self, key: str, data: bytes) -> bool:
        """Write a key to the upper store if neither has it. See `Store.create`."""
        return not _has(self.lower, key) and self.upper.create(key, data)

    def delete(self, key: str) -> None:
        """Remove a key of the upper store. Raises NotPermittedError if the lower one has it."""
        if _has(self.lower, key):
            msg = f"{key} belongs to the store under this overlay, which is only read"
            raise NotPermittedError(msg)
        self.upper.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the keys of both that start with the prefix, in ascending order."""
        both = heapq.merge(self.upper.list(prefix), self.lower.list(prefix))
        return (key for key, _ in groupby(both))

    def size(self, key: str) -> int:
        """Return the length of a key in bytes."""
        with suppress(MissingFileError):
            return self.upper.size(key)
        return self.lower.size(key)

    def _is_above(self, key: str) -> bool:
        return _has(self.upper, key)


def _has(store: Store, key: str) -> bool:
    try:
        store.size(key)
    except MissingFileError:
        return False
    return True
