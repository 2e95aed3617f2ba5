"""Versions of a manifest in a store: the newest one, the next one, and pages of files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rechannel.errors import DamagedStateError, FencedError, MissingFileError
from rechannel.model.codec import decode, encode
from rechannel.sinks.dataset.manifest import FORMAT, DataFile, Manifest, Page
from rechannel.sinks.marked import TRIES, ConflictError
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Store

BOOKS = "_rechannel/"
"""What is below a dataset's path and has no rows. A file sink sees by it that the path is taken."""
VERSIONS = f"{BOOKS}dataset/"
PAGES = f"{BOOKS}pages/"
FILES = "_files/"
"""Hidden from readers of a folder, like all names that begin with "_"."""
SUFFIX = ".pq"
"""Not ".parquet": a glob of `**/*.parquet` would find files that were replaced, too."""


def version_key(number: int) -> str:
    """Return the key of a version."""
    return f"{VERSIONS}{number:012d}.json"


def numbers(store: Store) -> list[int]:
    """Return the versions that are there, ascending."""
    names = (key.removeprefix(VERSIONS).removesuffix(".json") for key in store.list(VERSIONS))
    return [int(name) for name in names if name.isdecimal()]


def read_version(store: Store, number: int) -> Manifest:
    """Return one version. Raises MissingFileError, DamagedStateError, NewerFormatError."""
    found: Manifest = _record(store, version_key(number), Manifest)
    return found


def newest(store: Store) -> Manifest | None:
    """Return the newest version; None if there is none."""
    for _ in range(TRIES):
        there = numbers(store)
        if not there:
            return None
        try:
            return read_version(store, there[-1])
        except MissingFileError:  # it is no longer the newest one, and was removed
            continue
    msg = f"{version_key(there[-1])} is listed and cannot be read: restore it from a copy"
    raise DamagedStateError(msg)


def write_page(store: Store, key: str, files: Sequence[DataFile]) -> Page:
    """Write a page. key: one that no other writer uses."""
    store.put(key, seal({"format": FORMAT, "files": [encode(each) for each in files]}))
    rows, size = (sum(getattr(each, of) for each in files) for of in ("rows", "size"))
    return Page(key=key, files=len(files), rows=rows, size=size)


def files_of(store: Store, manifest: Manifest) -> Iterator[DataFile]:
    """Yield all files of a version."""
    for page in manifest.pages:
        record = unseal(store.read(page.key), name=page.key, newest=FORMAT)
        yield from (decode(DataFile, each) for each in record["files"])
    yield from manifest.files


class Versions:
    """The manifest as one driver knows and continues it. Several threads may."""

    def __init__(self, store: Store, where: str) -> None:
        """Read nothing yet. where: as errors name the dataset."""
        self._store, self._where = store, where
        self._lock = threading.Lock()
        self._known: Manifest | None = None
        self._doubtful = True
        """Whether a version may be there that this driver does not know."""
        self._epoch = 0

    @property
    def known(self) -> Manifest:
        """The newest version, as far as this driver knows."""
        if self._known is None:
            raise RuntimeError(f"{self._where} was not opened")
        return self._known

    def open(self, first: Callable[[Manifest | None], Manifest]) -> Manifest:
        """Take over: make the next version of the newest one. Returns that. Raises ConflictError, StorageError.

        A driver that slept before it makes its version may get a number that is free again, since others were
        removed. What it made then is litter, and it looks again.

        first: returns the next version, or raises if the dataset may not be taken over.
        """
        with self._lock:
            for _ in range(TRIES):
                after = first(newest(self._store))
                if self._create(after) and numbers(self._store)[-1:] == [after.version]:
                    self._known, self._doubtful, self._epoch = after, False, after.epoch
                    return after
        raise ConflictError(f"{self._where} is changed all the time by others")

    def look(self) -> Manifest:
        """Return the newest version, read again if there may be one that this driver does not know. Raises FencedError,
        StorageError.
        """
        with self._lock:
            return self._newest()

    def doubt(self) -> None:
        """Read the newest version again before anything else is done."""
        with self._lock:
            self._doubtful = True

    def commit(self, edit: Callable[[Manifest], Manifest | None]) -> Manifest | None:
        """Make the next version, of the newest one. Returns None if the edit makes none.

        edit: may be called again, with a later version. Raises FencedError if another driver has taken over,
        ConflictError, StorageError.
        """
        with self._lock:
            for _ in range(TRIES):
                after = edit(self._newest())
                if after is None:
                    return None
                self._doubtful = True
                if self._create(after):
                    self._known, self._doubtful = after, False
                    return after
        raise ConflictError(f"{self._where} is changed all the time by others")

    def _newest(self) -> Manifest:
        """Return the newest version, read again if there may be another. Raises FencedError."""
        if self._doubtful:
            found = newest(self._store)
            if found is None or found.version < self.known.version:
                msg = (
                    f"{self._where}: version {self.known.version} of the manifest is gone. Restore it from a"
                    " copy; nothing is published over what is left"
                )
                raise DamagedStateError(msg)
            self._known, self._doubtful = found, False
        if self.known.epoch > self._epoch:
            msg = f"another driver (epoch {self.known.epoch}) writes to {self._where}: this one has been replaced"
            raise FencedError(msg)
        return self.known

    def _create(self, manifest: Manifest) -> bool:
        record = {"format": FORMAT, **encode(manifest)}
        return self._store.create(version_key(manifest.version), seal(record))


def _record(store: Store, key: str, kind: type[Any]) -> Any:
    data = unseal(store.read(key), name=key, newest=FORMAT)
    try:
        return decode(
            kind, {name: value for name, value in data.items() if name not in ("format", "xxh3")}
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedStateError(f"{key} is not the record that it should be: {error}") from error
