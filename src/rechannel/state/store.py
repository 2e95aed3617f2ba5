"""The storage seam: the few operations that Rechannel needs of a place that keeps bytes.

Keys are relative POSIX paths ("journal/00000042.json"). Implementations: `local.LocalStore` (a
directory), `objects.ObjectStore` (a bucket), `hdfs.HdfsStore` (HDFS), `shared.SharedStore` (any of
them with a cache per host) and `memory.MemoryStore` (a dict, for tests and simulation). All of them
pass one contract test.

Remote readers need parts of files: a store that a cache may stand in front of is also a `Backing`,
one on other hosts a `RemoteStore`, and one that fetches bytes only when they are needed a
`RangedStore`. A store that writes under temporary names first is a `Sweepable`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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
        """Return bytes [start, start + length) of a key (to the end if length is None).

        Local stores return a view of a memory map: nothing is read until it is touched. Raises
        MissingFileError if the key does not exist.
        """

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """Write a key atomically, replacing an existing value; readers never see part of it.

        When the call returns, the write is as durable as the store's setting promises. Raises
        StorageError (disk full, ...).
        """

    def create(self, key: str, data: bytes) -> bool:
        """Write a key atomically and durably, only if it is absent. Returns False, and writes
        nothing, if it exists.

        Of any number of concurrent creators, in any process, exactly one gets True: fencing relies
        on it.
        """

    def delete(self, key: str) -> None:
        """Remove a key; not an error if it is absent."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield keys that start with the prefix, in ascending order."""

    def size(self, key: str) -> int:
        """Return the length of a key in bytes. Raises MissingFileError."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a store knows about a file without reading it."""

    size: int
    """Bytes."""
    version: str
    """A word that is unique to this content at this place: no other content has it, in any store.
    A copy kept under another version is useless.
    """

    @classmethod
    def written(cls, key: str, size: int, digest: str) -> FileFacts:
        """Facts that follow from what was written: its writer and all who know the digest need not ask the store.

        key: one that only one writer ever uses. digest: of the content, at least 128 bits.
        """
        return cls(size, f"{key}\0{digest}\0{size}")


@runtime_checkable
class Backing(Store, Protocol):
    """A store that other hosts can read in parts."""

    def facts(self, key: str) -> FileFacts:
        """Return size and version of a file. Raises MissingFileError."""

    def fetch(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """Return copies of byte ranges [start, stop), in order; ranges past the end are shorter.

        One request, if the store can. Raises MissingFileError, StorageError.
        """


@runtime_checkable
class RemoteStore(Backing, Protocol):
    """A store on other hosts, at a URL: it is read through a cache, and tried out before it is used."""

    @property
    def url(self) -> str:
        """Where it is, as errors name it."""

    def lacks(self) -> str | None:
        """Return a sentence with the settings that are missing here; None if requests can be made.

        It waits a few seconds at most.
        """


@runtime_checkable
class Sweepable(Protocol):
    """A store in which crashed writers leave temporary files."""

    def sweep_temporaries(self, before_s: float = math.inf) -> int:
        """Remove the files of crashed writers. Returns their number.

        before_s: Unix time; only files from before it. A write that is running elsewhere then fails,
        so a driver calls this after it has taken over and before it starts work.
        """


class Ranges(Protocol):
    """A file of which only some bytes are here, in a buffer of its full size.

    Bytes that were not needed yet read as zeros.
    """

    @property
    def view(self) -> memoryview:
        """The whole file, read-only."""

    @property
    def complete(self) -> bool:
        """Whether all bytes were here when the file was opened."""

    def need(self, spans: Spans) -> None:
        """Return once these bytes are here. Raises MissingFileError, StorageError."""

    def mend(self, start: int, stop: int) -> None:
        """Fetch bytes again that are here but wrong."""

    def discard(self) -> None:
        """Drop the local copy; the next reader of the file fetches it again."""

    def gone(self) -> bool:
        """Return whether the next reader of the file gets another buffer."""


class RangedStore(ABC):
    """A store that fetches bytes of a file when they are needed.

    A base class, not a protocol: tasks ask `isinstance` for every segment that they open, which
    takes 0.1 us for a base class and 20 us for a protocol.
    """

    __slots__ = ()

    @abstractmethod
    def ranges(self, key: str, known: FileFacts | None = None) -> Ranges | None:
        """Return a file of which only some bytes are here; None if the store has all files whole.

        known: its facts; None = ask the store. Raises MissingFileError, at the latest when bytes are fetched.
        """

    @abstractmethod
    def put_known(self, key: str, data: list[memoryview], known: FileFacts) -> None:
        """Write as `Store.put` does, and keep what readers on this host will look for. known: facts of the data."""

    @abstractmethod
    def close_files(self) -> None:
        """Close the files that this process keeps open for its next reader. Buffers in use stay valid."""


def ranges_of(store: Store, key: str, known: FileFacts | None = None) -> Ranges | None:
    """Return a file in parts; None if the store does not fetch parts. known: as for `RangedStore.ranges`."""
    return store.ranges(key, known) if isinstance(store, RangedStore) else None


def put_known(store: Store, key: str, data: list[memoryview], known: FileFacts) -> None:
    """Write a file whose facts follow from what is written. See `FileFacts.written`."""
    if isinstance(store, RangedStore):
        store.put_known(key, data, known)
    else:
        store.put(key, data)


def close_files(store: Store) -> None:
    """Close what this process keeps open of a store that fetches parts. See `RangedStore.close_files`."""
    if isinstance(store, RangedStore):
        store.close_files()


def is_remote(store: Store) -> bool:
    """Return whether a store, or the one that it caches, is on other hosts: each read of it takes a request."""
    found: object = store
    while found is not None and not isinstance(found, RemoteStore):
        found = getattr(found, "backing", None)
    return found is not None
