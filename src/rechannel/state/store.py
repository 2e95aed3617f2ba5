"""The storage seam: the few things Rechannel asks of a place that keeps bytes.

Keys are relative POSIX paths ("journal/00000042.json"). Implementations: `local.LocalStore` (a directory) and
`memory.MemoryStore` (a dict, for tests and simulation). All of them pass one contract test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """A place that keeps immutable byte strings under keys."""

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """Bytes [start, start + length) of a key (to the end when length is None).

        Local stores return a view of a memory map: nothing is read until it is touched.
        Raises MissingFileError when the key does not exist.
        """

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key whole or not at all (readers never see part of it), replacing what was there.

        Durable as the store's setting promises when the call returns. Raises StorageError (disk full, ...).
        """

    def create(self, key: str, data: bytes) -> bool:
        """Write a key whole, only if it is absent, durably. False (and nothing written) if it exists.

        Exactly one of any number of concurrent creators, in any process, gets True: fencing rests on it.
        """

    def delete(self, key: str) -> None:
        """Remove a key; not an error when it is absent."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, in ascending order."""

    def size(self, key: str) -> int:
        """Length of a key in bytes. Raises MissingFileError."""
