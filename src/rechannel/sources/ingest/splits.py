"""Ranges of rows of an ingest log, read by tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from rechannel.sources.ingest.format import damaged
from rechannel.sources.ingest.log import key_of, read_file
from rechannel.sources.reader import Split
from rechannel.state.store import Backing

BATCH_ROWS = 1 << 16
"""Small files are combined into batches of about as many rows."""
BATCH_BYTES = 16 << 20
"""Or bytes."""


@dataclass(frozen=True, kw_only=True)
class IngestSplits:
    """Reads the files of a log under the stream's columns."""

    store: Backing
    log: str
    """Id of the log."""
    schema: pa.Schema

    def only(self, columns: tuple[str, ...]) -> IngestSplits:
        """Return a reader of these columns only."""
        chosen = pa.schema([self.schema.field(name) for name in columns])
        return IngestSplits(store=self.store, log=self.log, schema=chosen)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in order. Raises DamagedStateError, which names the file, StorageError."""
        held, rows, size = list[pa.RecordBatch](), 0, 0
        for part in self._parts(split):
            held.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield _joined(held)
                held, rows, size = [], 0, 0
        if held:
            yield _joined(held)

    def _parts(self, split: Split) -> Iterator[pa.RecordBatch]:
        (first, begin), (last, end) = split["from"], split["to"]
        for number in range(first, last + (end > 0)):
            head, rows = read_file(self.store, number)
            if (head.log, head.number) != (self.log, number):
                raise damaged(key_of(number), f"it is file {head.number} of log {head.log!r}")
            start = begin if number == first else 0
            stop = end if number == last else rows.num_rows
            if start < stop:
                yield self._typed(rows.slice(start, stop - start))

    def _typed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
