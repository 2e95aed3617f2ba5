"""An ingest log as the driver reads it: how far a timestep may read, and in which splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.errors import MissingFileError, SchemaDriftError, SourceError
from rechannel.model.ddl import columns_text
from rechannel.sources.backlog import Backlog
from rechannel.sources.ingest.log import IngestLog, read_identity
from rechannel.sources.ingest.positions import Position, position_of, splits, taken
from rechannel.sources.ingest.splits import IngestSplits
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader
from rechannel.state.store import Backing

if TYPE_CHECKING:
    from rechannel.sources.ingest.connector import IngestConnector


class IngestReader(NativeReader):
    """Reads an `IngestConnector`. Offsets: see `positions.py`.

    Raises SourceError if there is no log, SchemaDriftError if it has other columns than were declared.
    """

    def __init__(self, connector: IngestConnector, store: Backing, *, name: str) -> None:
        """store: of the log."""
        self._connector, self._name = connector, name
        identity = read_identity(store)
        if identity is None:
            raise SourceError(
                f"source {name!r}: there is no ingest log at {connector.path}: make one with"
                f" `rechannel ingest {connector.path} --schema ...`, or correct the path"
            )
        self._log = IngestLog(store=store, identity=identity, place=connector.path)
        self._rows = 0
        self._seen: tuple[int, int] | None = None
        """Files from one to another of which all were there when the log was looked at last."""
        self.schema: pa.Schema = self._columns()

    def initial(self) -> Offset:
        """Return the offset of the first row that is there."""
        first, rows = self._log.removed() + 1, 0
        if self._log.newest(first - 1) >= first:
            rows = self._log.head(first).rows_before
        return Position(log=self._log.identity.id, file=first, row=0, rows=rows).as_offset()

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the rows that a timestep takes. See `SourceReader`."""
        del stream_ms
        at = self._here(start)
        last = self._newest(at.file)
        if last < at.file:
            self._rows = at.rows
            return start
        newest = self._log.head(last)
        self._rows = newest.rows_after
        if newest.rows_after == at.rows:
            return start
        most = bound.units or self._connector.per_timestep
        try:
            return taken(at, newest, self._log.head, most, bound.bytes).as_offset()
        except MissingFileError:
            self._seen = None
            self._newest(at.file)  # which says what is missing
            raise

    def _newest(self, file: int) -> int:
        """Return the number of the last file, as `IngestLog.newest` does from `file` on. It lists what is new only."""
        first, known = self._seen or (file, file - 1)
        if not first <= file <= known + 1:
            first, known = file, file - 1
        if file <= known and not self._log.exists(file):
            raise self._log.gone(file)
        last = self._log.newest(known)
        self._log.settle(known + 1, last)
        self._seen = (first, last)
        return last

    def backlog(self, end: Offset, stream_ms: int) -> Backlog:
        """Return the rows that are left. See `Backlogged`."""
        del stream_ms
        return Backlog(rows=max(0, self._rows - position_of(end).rows))

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return ranges of rows."""
        return splits(self._here(start), self._here(end), self._log.head)

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what reads the ranges."""
        del start, end, layout
        return IngestSplits(store=self._log.store, log=self._log.identity.id, schema=self.schema)

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise SourceError if a file of an earlier timestep was removed."""
        del start, end
        for split in layout:
            (first, _), (last, row) = split["from"], split["to"]
            for number in (first, last if row else last - 1):
                if not self._log.exists(number):
                    raise self._log.gone(number)

    def _here(self, offset: Offset) -> Position:
        at = position_of(offset)
        if at.log != self._log.identity.id:
            raise SourceError(
                f"source {self._name!r}: {self._connector.path} is another log ({self._log.identity.id}) than the one"
                f" that was read so far ({at.log}): restore that, or give the source another name"
            )
        return at

    def _columns(self) -> pa.Schema:
        """Return the declared columns, or those of the log, which may be null like those of every source."""
        there, declared = self._log.identity.schema, self._connector.schema
        if declared is None:
            return pa.schema([pa.field(each.name, each.type) for each in there])
        if [(f.name, f.type) for f in declared] != [(f.name, f.type) for f in there]:
            raise SchemaDriftError(
                f"source {self._name!r}: the ingest log {self._connector.path} has the columns"
                f" {columns_text(there)}, but the stream expects {columns_text(declared)}: correct schema=, or leave"
                " it out"
            )
        return declared
