"""An ingest log in a store: which files there are, and what their heads say.

    ingest.json                        id and columns of the log
    log/<17 digits>/<20 digits>.arrow  file n, in the folder n // 1000: one listing shows what is new
    checkpoints/<20 digits>.json       what servers know after file n (`rechannel.ingest.checkpoints`)
    removals/<20 digits>.json          files up to that number were removed

A server that writes file n has read all files before it, and creates it only if it is absent. So files follow each
other without gaps, whatever number of servers write, and each knows the rows and the producers of all before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.errors import MissingFileError, RefusedError, SourceError
from rechannel.model.ddl import columns_text, schema_of, type_name
from rechannel.sources.ingest.format import (
    HEAD_BYTES,
    Head,
    damaged,
    decode,
    decode_head,
    head_length,
)
from rechannel.state.sealed import seal, unseal
from rechannel.state.store import Backing
from rechannel.state.stores.local import LocalStore

FORMAT = 1
"""Version of the format of `ingest.json` and of removals; readers reject later ones."""

IDENTITY = "ingest.json"
REMOVALS = "removals/"
CHECKPOINTS = "checkpoints/"
FILES = "log/"
PER_FOLDER = 1_000
"""Files of a folder."""

HEADS_KEPT = 4_096


def folder_of(number: int) -> str:
    """Return the prefix of the keys of a file's folder."""
    return f"{FILES}{number // PER_FOLDER:017d}/"


def key_of(number: int) -> str:
    """Return the key of a file."""
    return f"{folder_of(number)}{number:020d}.arrow"


def number_of(key: str) -> int:
    """Return the number in the key of a file or a checkpoint."""
    return int(key.rpartition("/")[2].partition(".")[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a log is."""

    id: str
    """Unlike that of any other log."""
    schema: pa.Schema
    """Columns of its rows."""


def write_identity(store: Backing, identity: Identity) -> Identity:
    """Make a log, unless there is one. Returns what the log is.

    Raises RefusedError if it has other columns, or if a type has no name to write down.
    """
    columns = [[each.name, type_name(each.type), each.nullable] for each in identity.schema]
    made = {"format": FORMAT, "id": identity.id, "columns": columns}
    if schema_from(columns) != identity.schema:
        raise RefusedError(f"columns of these types cannot be kept: {identity.schema}")
    store.create(IDENTITY, seal(made))
    there = read_identity(store)
    if there is None or there.schema != identity.schema:
        shown = "?" if there is None else columns_text(there.schema)
        raise RefusedError(
            f"the log has the columns {shown}, not {columns_text(identity.schema)}: leave the columns out, or use"
            " another directory"
        )
    return there


def read_identity(store: Backing) -> Identity | None:
    """Return what a log is; None if there is none. Raises DamagedStateError, NewerFormatError."""
    try:
        record = unseal(store.read(IDENTITY), name=IDENTITY, newest=FORMAT)
    except MissingFileError:
        return None
    return Identity(id=record["id"], schema=schema_from(record["columns"]))


def schema_from(columns: Sequence[Sequence[object]]) -> pa.Schema:
    """Return the schema of columns as [name, type in Spark's words, nullable]."""
    kinds = [schema_of(f"c {kind}").field(0).type for _, kind, _ in columns]
    return pa.schema(
        [
            pa.field(str(name), kind, bool(nullable))
            for (name, _, nullable), kind in zip(columns, kinds, strict=True)
        ]
    )


@dataclass(slots=True)
class IngestLog:
    """The files of a log. Heads are read once."""

    store: Backing
    identity: Identity
    place: str
    """As messages name it."""
    _heads: OrderedDict[int, Head] = field(default_factory=OrderedDict)

    def exists(self, number: int) -> bool:
        """Return whether there is a file."""
        try:
            self.store.size(key_of(number))
        except MissingFileError:
            return False
        return True

    def head(self, number: int) -> Head:
        """Return the head of a file. Raises MissingFileError, DamagedStateError."""
        known = self._heads.get(number)
        if known is None:
            known = self._heads[number] = self._checked(read_head(self.store, number), number)
            while len(self._heads) > HEADS_KEPT:
                self._heads.popitem(last=False)
        return known

    def create(self, head: Head, data: bytes) -> bool:
        """Write a file durably, if there is none with its number. Raises StorageError."""
        return self.store.create(key_of(head.number), data)

    def forget(self, number: int) -> None:
        """Remove a file whose number was used and removed before it was written. Raises StorageError."""
        self._heads.pop(number, None)
        self.store.delete(key_of(number))

    def settle(self, first: int, last: int) -> None:
        """Make the names of files durable: a file may be seen before the server that wrote it has done that."""
        if isinstance(self.store, LocalStore) and first <= last:
            for folder in range(first // PER_FOLDER, last // PER_FOLDER + 1):
                self.store.settle(key_of(folder * PER_FOLDER))

    def drop_folders(self, folders: Iterable[str]) -> None:
        """Remove folders in which no file is left, where there are folders. Raises StorageError."""
        if isinstance(self.store, LocalStore):
            for folder in folders:
                self.store.drop_folder(folder)

    def newest(self, after: int) -> int:
        """Return the number of the last file; `after` if no file follows that one.

        Raises SourceError if files are missing in between.
        """
        at, listed = after + 1, set[int]()
        known = (
            self.known()
        )  # first: files and checkpoints that come during the look are later ones
        while True:
            if at % PER_FOLDER == 0 or not listed:
                listed = {number_of(key) for key in self.store.list(folder_of(at))}
            # A directory that is written to while it is listed may show a file and not the one before it.
            if at not in listed and not self.exists(at):
                break
            at += 1
        if any(number > at for number in listed) or known >= at:
            raise self.gone(at)
        return at - 1

    def removed(self) -> int:
        """Return the number up to which files were removed on purpose; 0 for none."""
        return max(map(number_of, self.store.list(REMOVALS)), default=0)

    def note_removal(self, through: int) -> None:
        """Write down that files up to `through` are removed; before that is done.

        The largest number counts, so a server that was held up takes back nothing of what others have written down.
        """
        self.store.create(
            f"{REMOVALS}{through:020d}.json", seal({"format": FORMAT, "through": through})
        )
        for key in [*self.store.list(REMOVALS)]:
            if number_of(key) < through:
                self.store.delete(key)

    def known(self) -> int:
        """Return a number up to which there once were files: that of the newest checkpoint; 0 without one."""
        return max(map(number_of, self.store.list(CHECKPOINTS)), default=0)

    def gone(self, number: int) -> SourceError:
        """Return the error of a file that is needed and not there."""
        through = self.removed()
        if number <= through:
            return SourceError(
                f"the ingest log {self.place} was removed up to file {through}, and file {number} has not been read:"
                " restore the files from a copy, or begin anew with another name of the source"
            )
        return SourceError(
            f"file {key_of(number)} of the ingest log {self.place} is missing, and later ones are there: restore it"
            " from a copy"
        )

    def _checked(self, head: Head, number: int) -> Head:
        if (head.log, head.number) != (self.identity.id, number):
            raise damaged(key_of(number), f"it is file {head.number} of log {head.log!r}")
        return head


def read_head(store: Backing, number: int) -> Head:
    """Return the head of a file. Raises MissingFileError, DamagedStateError."""
    key = key_of(number)
    begin = store.fetch(key, [(0, HEAD_BYTES)])[0]
    length = head_length(begin, key)
    if length > len(begin):
        begin = store.fetch(key, [(0, length)])[0]
    return decode_head(begin, key)


def read_file(store: Backing, number: int) -> tuple[Head, pa.RecordBatch]:
    """Read and check a whole file. Raises MissingFileError, DamagedStateError, StorageError."""
    key = key_of(number)
    if isinstance(store, LocalStore):
        # Without a map: another host may remove the file meanwhile.
        return decode(store.fetch(key, [(0, store.size(key))])[0], key)
    return decode(store.read(key), key)
