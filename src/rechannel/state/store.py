"""The storage seam: the few things Rechannel asks of a place that keeps bytes.

Keys are relative POSIX paths ("journal/00000042.json"). Implementations: `local.LocalStore` (a directory),
`objects.ObjectStore` (a bucket), `shared.SharedStore` (either of them behind a cache per host) and
`memory.MemoryStore` (a dict, for tests and simulation). All of them pass one contract test.

Who reads a store from afar wants parts of files: a store that others may stand before is also a
`Backing`, and one that brings bytes only as they are needed hands out `Ranges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Spans = npt.NDArray[np.int64]
"""Half-open ranges [start, stop), of bytes or of rows. Shape (spans, 2)."""


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


@dataclass(frozen=True, slots=True)
class Facts:
    """What a store knows of a file without reading it.

    size: bytes. version: a word that no other content ever had in any store, the file's place
    included: what was kept under another version is of no use.
    """

    size: int
    version: str


@runtime_checkable
class Backing(Store, Protocol):
    """A store that can be read in parts from other hosts."""

    def facts(self, key: str) -> Facts:
        """Size and version of a file. Raises MissingFileError."""

    def fetch(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """Copies of byte ranges [start, stop), in their order; those past the end are shorter.

        One request, as far as the store can. Raises MissingFileError, StorageError.
        """


class Ranges(Protocol):
    """A file of which only some bytes are here, in a buffer of its full size.

    A store that brings bytes as they are needed has a method `ranges(key) -> Ranges | None`. Bytes
    that were not needed yet read as zeros. view: the buffer, read-only. complete: whether everything
    was here when it was opened.
    """

    @property
    def view(self) -> memoryview:
        """The whole file."""

    @property
    def complete(self) -> bool:
        """Whether nothing has to be asked for."""

    def need(self, spans: Spans) -> None:
        """Return when these bytes are here. Raises MissingFileError, StorageError."""

    def mend(self, start: int, stop: int) -> None:
        """Bring bytes that are here once more: they were not what they should be."""

    def discard(self) -> None:
        """Give up what is here; who asks for the file next gets it anew."""

    def gone(self) -> bool:
        """Whether who asks for the file next gets another buffer."""
