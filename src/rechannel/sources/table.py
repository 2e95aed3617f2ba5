"""A finished table as a source, for streams that look rows up in it: read once, or periodically.

The result of a read is written to the job's store before an offset names it, so a replay reads the
same rows, whatever happened to the table since. A file's name contains a digest of its contents:
two drivers that both believe to be in charge cannot change what the other reads. A read after the
first one yields only the differences to the previous one: rows that are new or changed, and those
of keys that are gone, marked. It runs next to the timesteps, and may fail: rows are then looked up
in the previous table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from rechannel.errors import DataflowError, MissingFileError, SourceError, one_sentence
from rechannel.kernels.columnar.ranking import orderable
from rechannel.kernels.functions.user_errors import user_error
from rechannel.logs import fields
from rechannel.model.ddl import type_name
from rechannel.model.decoded import decoded_schema, decoded_table
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.declared import as_declared
from rechannel.sources.input_files.seen import folder_of
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader
from rechannel.sources.snapshots import differences, one_row_per_key
from rechannel.sources.spark_types import arrow_schema
from rechannel.state.segments.arrow_file import in_pieces
from rechannel.state.segments.rows_file import read_rows, write_rows
from rechannel.state.store import Store
from rechannel.threads import DaemonThreads

_LOG = logging.getLogger("rechannel")

Table = Any
"""A Spark DataFrame or an Arrow table."""

ROWS = 1 << 18
"""Rows of one file, which one task reads."""

GONE = ".gone"
"""The column of a table that says whether a row's key is gone."""

GONE_FIELD = pa.field(GONE, pa.bool_(), False)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A table, or the function that makes it: it stays in the driver's process."""

    table: Table | Callable[[], Table]

    def make(self) -> Table:
        """Return the table."""
        return self.table() if callable(self.table) else self.table


def is_table(value: object) -> bool:
    """Return whether something is a Spark DataFrame or an Arrow table."""
    return isinstance(value, pa.Table) or (hasattr(value, "toArrow") and hasattr(value, "schema"))


@dataclass(frozen=True, eq=False, kw_only=True)
class TableConnector(Connector):
    """A table with one relevant row per key."""

    held: Held
    keys: tuple[str, ...]
    """Columns by which its rows are looked up."""
    by: tuple[str, ...] = ()
    """Columns that say which of several rows of a key is the newest."""
    refresh_ms: int | None = None
    """It is read again after this many milliseconds of timestep time; None for once."""
    rereadable: ClassVar[bool] = True

    @property
    def schema(self) -> pa.Schema | None:
        """Columns, and the mark of keys that are gone; None if a function has to be called to know
        them.
        """
        return None if callable(self.held.table) else self.columns_of(self.held.table)

    def columns_of(self, table: Table) -> pa.Schema:
        """Return the columns of the source's rows if this is the table."""
        schema = table.schema if isinstance(table, pa.Table) else arrow_schema(table.schema)
        columns = decoded_schema(schema)
        if self.refresh_ms is None:
            return columns
        return columns.append(GONE_FIELD)

    def describe(self) -> str:
        """Return what it is and how it is read."""
        by = f", newest by {', '.join(self.by)}" if self.by else ""
        again = "" if self.refresh_ms is None else f", read every {self.refresh_ms / 1_000:g} s"
        return f"table by {', '.join(self.keys)}{by}{again}"

    def open(self, context: SourceContext) -> TableReader:
        """Open it: a function is called if only it knows the columns."""
        return TableReader(self, store=context.store, name=context.name, aside=context.aside)


class TableReader(NativeReader):
    """Reads a `TableConnector`.

    Offsets are {"reads": number of reads, "at_ms": time of the last one, "rows": files with the
    differences to the previous read, "whole": files of the whole table, if it is read
    periodically; otherwise those of "rows"}.
    """

    records = True

    def __init__(
        self,
        connector: TableConnector,
        *,
        store: Store,
        name: str,
        aside: Executor | None = None,
    ) -> None:
        """Find the columns; nothing is read yet. aside: runs periodic reads; None for a thread."""
        self._connector, self._store, self._name = connector, store, name
        self._what = f"table {name!r} ({connector.describe()})"
        schema = connector.schema
        self.schema: pa.Schema = connector.columns_of(self._make()) if schema is None else schema
        missing = [n for n in (*connector.keys, *connector.by) if n not in self.schema.names]
        if missing:
            msg = f"{self._what} has no column {missing[0]!r}; there are {', '.join(self.schema.names)}"
            raise DataflowError(msg)
        for each in connector.by:
            kind = self.schema.field(each).type
            if not orderable(kind):
                msg = (
                    f"{self._what}: rows cannot be ordered by {each!r}, which is {type_name(kind)}"
                )
                raise DataflowError(msg)
        # A read that found nothing new needs neither a timestep nor an entry in the journal.
        self._looked_ms = 0
        self._forgotten = 0
        self._aside = aside
        self._own: DaemonThreads | None = None
        self._reading: Future[pa.RecordBatch] | None = None

    @property
    def _columns(self) -> pa.Schema:
        """Columns of the table itself."""
        return pa.schema([field for field in self.schema if field.name != GONE])

    def initial(self) -> Offset:
        """Return the offset before the first read."""
        return {"reads": 0}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after another read, if one is due and finds something. See
        `SourceReader`.
        """
        del bound
        if not self._due(start, stream_ms):
            return start
        connector, reads = self._connector, start["reads"] + 1
        rows = self._again(stream_ms) if start["reads"] else self._read()
        if rows is None:
            return start
        if connector.refresh_ms is None:
            return {"reads": reads, "at_ms": stream_ms, "rows": self._write(reads, "rows", rows)}
        before = self._rows_of(_whole(start), self._columns)
        changed, gone = differences(before, rows, connector.keys)
        if start["reads"] and not changed.num_rows and not gone.num_rows:
            self._looked_ms = stream_ms
            return start
        marked = _marked(changed, gone=False), _marked(gone, gone=True)
        return {
            "reads": reads,
            "at_ms": stream_ms,
            "rows": self._write(reads, "rows", *marked),
            "whole": self._write(reads, "whole", rows),
        }

    def _due(self, start: Offset, stream_ms: int) -> bool:
        if not start["reads"]:
            return True
        every = self._connector.refresh_ms
        if every is None:
            return False
        return bool(stream_ms - max(start["at_ms"], self._looked_ms) >= every)

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return one split per file."""
        if start["reads"] == end["reads"]:
            return []
        return [
            {"order": number, "key": key, "size": size}
            for number, (key, size) in enumerate(end["rows"])
        ]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what reads the files."""
        del start, end, layout
        return TableSplits(store=self._store, schema=self.schema)

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise SourceError if a file is deleted, as those of a read are when the next one is committed."""
        del start, end
        for split in layout:
            try:
                self._store.size(split["key"])
            except MissingFileError as error:
                msg = f"{self._what} has been read again since, and the rows of earlier reads are deleted"
                raise SourceError(msg) from error

    def committed(self, end: Offset) -> None:
        """Delete the files of earlier reads."""
        if end["reads"] <= self._forgotten:
            return
        self._forgotten = end["reads"]
        first = f"{folder_of(self._name)}{end['reads']:012d}-"
        for key in list(self._store.list(folder_of(self._name))):
            if key < first:
                self._store.delete(key)

    def close(self) -> None:
        """Abandon a read that is running."""
        if self._own is not None:
            self._own.shutdown(wait=False, cancel_futures=True)

    def _make(self) -> Table:
        try:
            made = self._connector.held.make()
        except Exception as error:
            raise user_error(f"the function that makes {self._what}", error) from error
        if not is_table(made):
            msg = f"{self._what}: the function returned {type(made).__name__}, not a DataFrame"
            raise SourceError(msg)
        return made

    def _again(self, stream_ms: int) -> pa.RecordBatch | None:
        """Return what another read found; None while it runs next to the timesteps, and if it
        failed.

        The previous table stays in use, and the read is repeated when the next one is due.
        """
        if self._reading is None:
            self._reading = self._threads().submit(self._read)
        if not self._reading.done():
            return None
        done, self._reading = self._reading, None
        try:
            return done.result()
        except Exception as error:
            self._looked_ms = stream_ms
            wait_s = (self._connector.refresh_ms or 0) / 1_000
            _LOG.warning(
                "%s could not be read; the previous rows stay in use, and it is retried in %g s: %s",
                self._what,
                wait_s,
                one_sentence(error),
                extra=fields("table_not_read", retry_seconds=wait_s, reason=error),
            )
            return None

    def _threads(self) -> Executor:
        if self._aside is not None:
            return self._aside
        self._own = self._own or DaemonThreads(1, "rechannel-table")
        return self._own

    def _read(self) -> pa.RecordBatch:
        return self._rows(self._make())

    def _rows(self, made: Table) -> pa.RecordBatch:
        """Return one row per key, in the driver's memory."""
        try:
            table = decoded_table(made) if isinstance(made, pa.Table) else made.toArrow()
        except Exception as error:
            msg = f"{self._what} could not be read: {str(error)[:5000]}"
            raise SourceError(msg) from error
        pieces = table.combine_chunks().to_batches()
        if len(pieces) > 1:
            msg = f"{self._what} is too large: a column has more than 2 GB of text; use a stream of its changes instead"
            raise SourceError(msg)
        rows = pieces[0] if pieces else pa.RecordBatch.from_pylist([], table.schema)
        rows = as_declared(rows, self._columns, self._what)
        return one_row_per_key(rows, self._connector.keys, self._connector.by, self._what)

    def _write(self, reads: int, kind: str, *batches: pa.RecordBatch) -> list[list[Any]]:
        """Write rows to files. Returns [key, number of rows] of each."""
        files: list[list[Any]] = []
        for part in _parts(batches):
            digest = xxhash.xxh3_128()
            for piece in in_pieces(part):
                digest.update(piece)
            key = f"{folder_of(self._name)}{reads:012d}-{kind}-{len(files):06d}-{digest.hexdigest()}.arrow"
            write_rows(self._store, key, [part])
            files.append([key, part.num_rows])
        return files

    def _rows_of(self, files: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows of files."""
        batches = [read_rows(self._store, key) for key, _ in files]
        if not batches:
            return pa.RecordBatch.from_pylist([], schema)
        return as_declared(pa.concat_batches(batches), schema, self._what)


@dataclass(frozen=True, kw_only=True)
class TableSplits:
    """Files of a table."""

    store: Store
    schema: pa.Schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file. Raises SourceError if keys are gone in a table that is no
        longer read periodically.
        """
        rows = read_rows(self.store, split["key"])
        marks, wanted = GONE in rows.schema.names, GONE in self.schema.names
        # A job that is resumed with changed code replays what was read earlier.
        if wanted and not marks:
            rows = _marked(rows, gone=False)
        elif marks and not wanted:
            if pc.any(rows.column(GONE)).as_py():
                msg = f"{split['key']} marks keys as gone: start once more with refresh=, then without it"
                raise SourceError(msg)
            rows = rows.select(self.schema.names)
        yield pa.RecordBatch.from_arrays(rows.columns, schema=self.schema)


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut batches into pieces with the rows of one file."""
    for rows in batches:
        for start in range(0, rows.num_rows, ROWS):
            yield rows.slice(start, ROWS)


def _marked(rows: pa.RecordBatch, *, gone: bool) -> pa.RecordBatch:
    """Return rows with a column that says whether their keys are gone."""
    mark = pa.repeat(pa.scalar(gone), rows.num_rows)
    return pa.RecordBatch.from_arrays([*rows.columns, mark], schema=rows.schema.append(GONE_FIELD))


def _whole(offset: Offset) -> list[list[Any]]:
    """Return the files of the whole table: of a table that is read once, those of its rows."""
    files: list[list[Any]] = offset["whole"] if "whole" in offset else offset.get("rows", [])
    return files
