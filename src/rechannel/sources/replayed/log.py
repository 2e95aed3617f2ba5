"""The log of replayed dead letters: one file per call, in the state directory of the job.

    sources/<name>/replays/<20 digits>.arrow     file n, from 1

A file is created only if it is absent, at once, with its rows and the dead letters that they are of. So it is both: the
input, which the source reads exactly once, and the record of what was taken, which the next call leaves out. A call
that dies before it has changed nothing. A file stays, but for its rows if no program can read it: see `reader`.

A file without rows may say that the log has ended: the source goes, and no call appends anything after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from rechannel.errors import MissingFileError
from rechannel.state.keys import SOURCES
from rechannel.state.segments.rows_file import read_rows, rows_bytes
from rechannel.state.store import Store
from rechannel.state.stores.local import directory_of

FACTS = b"rechannel"
"""Member of the metadata: who asked, when and why."""

ENDED = "ended"
"""Fact of a file that ends the log."""

LETTER, ROW_KEY, ATTEMPTS, ROW = "letter", "row_key", "attempts", "row"
"""Columns: which dead letter; which row; how often that was tried; the row itself, as a struct."""


def taking_schema(row: pa.Schema) -> pa.Schema:
    """Return the columns of a file, of rows with some columns."""
    return pa.schema(
        [
            (LETTER, pa.binary(16)),
            (ROW_KEY, pa.binary(16)),
            (ATTEMPTS, pa.int64()),
            (ROW, pa.struct(list(row))),
        ]
    )


@dataclass(frozen=True, slots=True)
class ReplayLog:
    """The files of a source."""

    store: Store
    name: str
    """Of the source."""

    def key(self, number: int) -> str:
        """Return the key of a file."""
        return f"{self._folder}{number:020d}.arrow"

    def newest(self, after: int = 0) -> int:
        """Return the number of the last file; `after` if no file follows that one."""
        while self._exists(after + 1):
            after += 1
        return after

    def numbers(self, after: int) -> Iterable[int]:
        """Return the numbers of the files that follow one."""
        return range(after + 1, self.newest(after) + 1)

    def keys_after(self, number: int) -> list[str]:
        """Return the keys of the files that follow one."""
        return [self.key(each) for each in self.numbers(number)]

    def create(self, number: int, taken: pa.RecordBatch, facts: Mapping[str, Any]) -> bool:
        """Write a file, if there is none with its number. taken: rows with `taking_schema`, by attempts."""
        marked = taken.replace_schema_metadata({FACTS: json.dumps(facts)})
        return self.store.create(self.key(number), rows_bytes([marked]))

    def end(self, after: int) -> None:
        """Append a file after which no call appends another until a source has read it. after: a file that is there."""
        nothing = pa.RecordBatch.from_pylist([], taking_schema(pa.schema([])))
        while not self.has_ended(after):
            self.create(self.newest(after) + 1, nothing, {ENDED: True})

    def has_ended(self, after: int) -> bool:
        """Whether the last file that follows one ends the log."""
        last = self.newest(after)
        return last > after and bool(facts_of(self.read(last)).get(ENDED))

    def read(self, number: int) -> pa.RecordBatch:
        """Read and check a file. Raises MissingFileError, DamagedStateError."""
        return read_rows(self.store, self.key(number))

    def empty(self, number: int) -> None:
        """Take all rows out of a file, which no timestep has read or will: its dead letters are not taken any more."""
        held = self.read(number)
        if held.num_rows:
            self.store.put(self.key(number), rows_bytes([held.slice(0, 0)]))

    def files(self) -> Iterator[pa.RecordBatch]:
        """Yield all files, in order."""
        for number in self.numbers(0):
            yield self.read(number)

    def settle(self, number: int) -> None:
        """Make the name of a file durable, which may be seen before the process that writes it has done that."""
        directory = directory_of(self.store)
        if directory is not None:
            directory.settle(self.key(number))

    @property
    def _folder(self) -> str:
        return f"{SOURCES}{quote(self.name, safe='')}/replays/"

    def _exists(self, number: int) -> bool:
        try:
            self.store.size(self.key(number))
        except MissingFileError:
            return False
        return True


def replayed_sources(store: Store) -> set[str]:
    """Return the names of the sources that have files in a state directory."""
    found = (key.removeprefix(SOURCES).split("/") for key in store.list(SOURCES))
    return {unquote(parts[0]) for parts in found if parts[1:2] == ["replays"]}


def rows_in(taken: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a file themselves."""
    held = taken.column(ROW)
    return pa.RecordBatch.from_arrays(held.flatten(), schema=pa.schema(list(held.type)))


def facts_of(taken: pa.RecordBatch) -> dict[str, Any]:
    """Return who asked for a replay, when and why."""
    found: dict[str, Any] = json.loads((taken.schema.metadata or {}).get(FACTS, b"{}"))
    return found
