"""Columns as records in one column, a batch at a time. A row that is no record is a dead letter, or fails the timestep.

See `decode.Decode`, its counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import Letters, OnError, Run, letters_of, row_texts
from rechannel.kernels.functions.formats.encoder import Encoded, Encoder, rest
from rechannel.kernels.functions.select import need

SHOWN = 200
"""Characters of a row in the error that ends a job."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Encode:
    """Writes columns as the records of a format."""

    encoder: Encoder
    column: str
    """The new column."""
    columns: tuple[str, ...] | None = None
    """Columns that are written; None = those of the schema, or all."""
    keep: tuple[str, ...] = ()
    """Columns that stay beside the new one."""
    on_error: OnError = "fail"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that stay, and the new one. Raises DataflowError, UnknownColumnError."""
        need(self.keep, schema)
        if self.column in self.keep:
            raise DataflowError(
                f"column {self.column!r} is kept, and is to have the records too: give column= another name"
            )
        self.encoder.check(self.written(schema))
        return self._made(schema)

    def agree(self, schema: pa.Schema) -> None:
        """Have the schema in its registry. See `Encoder.agree`."""
        self.encoder.agree(self.written(schema))

    def written(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that are written. Raises DataflowError, UnknownColumnError."""
        if self.columns is not None:
            need(self.columns, schema)
            return pa.schema([schema.field(name) for name in self.columns])
        fields = self.encoder.fields
        if fields is None:
            return schema
        lost = [name for name in schema.names if name not in fields and name not in self.keep]
        if lost:
            raise DataflowError(
                f"column {lost[0]!r} is no field of the schema, and would be lost: add it there, or say with columns="
                " which columns are written"
            )
        return pa.schema([each for each in schema if each.name in fields])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records of a batch. Raises ValueError if a row cannot be written, StorageError."""
        made = self._encoded(batch)
        if made.errors:
            first = min(made.errors)
            (shown,) = row_texts(batch.slice(first, 1))
            more = f", as are {len(made.errors) - 1} more" if len(made.errors) > 1 else ""
            raise ValueError(
                f"one of {batch.num_rows} rows cannot be written as {self.encoder.called}{more}: {made.errors[first]}"
                f" ({shown[:SHOWN]}). Divert such rows with on_error='dead_letter'"
            )
        return self._beside(batch, made.values)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Separate the rows that cannot be written. See `dead_letters.Dividing`."""
        found = list[Encoded]()

        def writable(rows: pa.RecordBatch) -> pa.RecordBatch:
            made = self._encoded(rows)
            found.append(made)
            left = rows.filter(rest(rows.num_rows, made.errors)) if made.errors else rows
            return self._beside(left, made.values)

        made = run(writable, batch)
        return made, letters_of(batch, found[-1].errors)

    def _encoded(self, batch: pa.RecordBatch) -> Encoded:
        return self.encoder.encoded(batch.select(self.written(batch.schema).names))

    def _made(self, schema: pa.Schema) -> pa.Schema:
        kept = [schema.field(name) for name in self.keep]
        return pa.schema([*kept, pa.field(self.column, self.encoder.kind)])

    def _beside(self, batch: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        schema = self._made(batch.schema)
        kept = [batch.column(name) for name in schema.names[:-1]]
        return pa.RecordBatch.from_arrays([*kept, values.cast(self.encoder.kind)], schema=schema)
