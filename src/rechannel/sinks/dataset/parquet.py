"""Rows of a dataset to Parquet files of about a size, and back.

A file is made in memory and written in one piece, so that no reader ever sees a part of one. What all open files of a
timestep hold is bounded: if there are many partitions, the largest file is written before it has its size. A file that
is open alone gets its size in any case, else a merge could end with files that are still too small, for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rechannel.errors import StorageError
from rechannel.model.named import by_names
from rechannel.sinks.dataset.manifest import DataFile
from rechannel.sinks.partitioned import parts_of
from rechannel.state.store import Store

GROUP_BYTES = 32 << 20
"""Arrow bytes of a row group: what is held of a file before it is compressed."""
MOST_HELD = 256 << 20
"""Bytes that all open files hold together, if they are several."""
MOST_OPEN = 1024
"""Open files. A partition whose file was written continues in another one."""
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How files are written."""

    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    target: int = 128 << 20
    rows: int | None = None
    compression: str = "zstd"
    gone: str = ""
    """The column that says whether a row's key is gone; empty if there is none."""


@dataclass
class _Open:
    """A file that grows in memory."""

    shape: Shape
    part: str
    rows: int = 0
    gone: int = 0
    _sink: Any = None
    _writer: Any = None
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_bytes: int = 0
    written: int = 0

    def __post_init__(self) -> None:
        """Begin."""
        self._sink = pa.BufferOutputStream()
        compression = self.shape.compression
        self._writer = pq.ParquetWriter(self._sink, self.shape.schema, compression=compression)

    @property
    def size(self) -> int:
        """Bytes, of which those that wait are not compressed yet."""
        return self.written + self._waiting_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self.shape.gone:
            self.gone += pc.sum(batch.column(self.shape.gone)).as_py() or 0
        if self._waiting_bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Compress what waits, as a row group."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self.shape.schema)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._waiting, self._waiting_bytes = [], 0
            self.written = self._sink.tell()

    def finish(self) -> pa.Buffer:
        """Return the file."""
        self.flush()
        self._writer.close()
        return self._sink.getvalue()


class Files:
    """Writes rows as files of about a size, one after the other for each partition."""

    def __init__(
        self, store: Store, shape: Shape, name: Callable[[], str], span: tuple[int, int]
    ) -> None:
        """name: returns a key that no other file has. span: the timesteps of the rows."""
        self._store, self._shape, self._name, self._span = store, shape, name, span
        self._open: dict[str, _Open] = {}
        self.done: list[DataFile] = []
        """The files that were written."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows of any partitions."""
        columns = self._shape.partitions
        for part, rows in parts_of(batch, columns, keep=True) if columns else [("", batch)]:
            self.add_to(part, rows)

    def add_to(self, part: str, batch: pa.RecordBatch) -> None:
        """Append rows of one partition."""
        # Pieces of half a file, before they are compressed: else a batch of any size would be one file.
        apiece = max(1, batch.num_rows * self._shape.target // max(1, 2 * batch.nbytes))
        start = 0
        while start < batch.num_rows:
            file = self._open.get(part)
            if file is None:
                file = self._open[part] = _Open(self._shape, part)
            room = BATCH_ROWS if self._shape.rows is None else self._shape.rows - file.rows
            piece = batch.slice(start, min(BATCH_ROWS, apiece, room))
            file.add(piece)
            start += piece.num_rows
            if file.size >= self._shape.target:
                file.flush()
            if file.size >= self._shape.target or file.rows == self._shape.rows:
                self._write(part)
        self._bound()

    def close(self) -> tuple[DataFile, ...]:
        """Write what is open. Returns all files."""
        for part in list(self._open):
            self._write(part)
        return tuple(self.done)

    def discard(self) -> None:
        """Remove what was written: no version will name it."""
        self._open.clear()
        for each in self.done:
            with suppress(StorageError):
                self._store.delete(each.key)

    def _bound(self) -> None:
        while len(self._open) > 1 and (
            len(self._open) > MOST_OPEN
            or sum(file.size for file in self._open.values()) > MOST_HELD
        ):
            self._write(max(self._open, key=lambda part: self._open[part].size))

    def _write(self, part: str) -> None:
        file = self._open.pop(part)
        data = memoryview(file.finish())
        key, (first, last) = self._name(), self._span
        self._store.put(key, [data])
        self.done.append(
            DataFile(
                key=key,
                rows=file.rows,
                size=len(data),
                first=first,
                last=last,
                part=part,
                gone=file.gone,
            )
        )


def batches_of(
    store: Store, files: Sequence[DataFile], schema: pa.Schema, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, one file after the other, with the columns of a schema: null where a file has none."""
    for each in files:
        with pq.ParquetFile(pa.BufferReader(pa.py_buffer(store.read(each.key)))) as file:
            for batch in file.iter_batches(batch_size=rows, use_threads=False):
                yield fitted(batch, schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with exactly the columns of a schema."""
    named = by_names(batch, schema)
    columns = [
        column if column.type.equals(each.type) else column.cast(each.type)
        for column, each in zip(named.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
