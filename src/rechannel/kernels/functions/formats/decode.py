"""Records in one column as columns, a batch at a time. What is no record is a dead letter, or fails the timestep."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import (
    LONGEST,
    Letters,
    OnError,
    Run,
    offsets_of,
    row_texts,
)
from rechannel.kernels.functions.formats.format import Format, Parsed
from rechannel.kernels.functions.select import need
from rechannel.model.ddl import type_name

SHOWN = 200
"""Bytes of a record in the error that ends a job."""
KEPT = 64 << 10
"""Bytes of a record in a dead letter."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Decode:
    """Reads the columns of a format from the records in one column."""

    format: Format
    column: str
    """Column with the records: text or binary."""
    keep: tuple[str, ...] = ()
    """Columns that stay beside the new ones."""
    place: tuple[str, ...] = ()
    """Columns that say where a record is from, for dead letters and errors."""
    on_error: OnError = "fail"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that stay, and the new ones. Raises DataflowError, UnknownColumnError."""
        need((self.column, *self.keep), schema)
        kind = schema.field(self.column).type
        if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            raise DataflowError(
                f"column {self.column!r} is {type_name(kind)}: {self.format.called} is in texts or binaries"
            )
        columns = self.format.columns
        both = [name for name in self.keep if name in columns.names]
        if both:
            raise DataflowError(
                f"column {both[0]!r} is kept, and is a member of the objects too: rename it"
            )
        return pa.schema([*(schema.field(name) for name in self.keep), *columns])

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return the records, where they are from, and the columns that stay and are wanted."""
        return {self.column, *self.place, *(name for name in self.keep if name in wanted)}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a batch. Raises ValueError if a record cannot be read, StorageError."""
        parsed = self.format.parsed(batch.column(self.column))
        if parsed.errors:
            raise ValueError(self._complaint(batch, parsed))
        return self._beside(batch, parsed.rows)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Separate the records that cannot be read. See `dead_letters.Dividing`."""
        found = list[Parsed]()

        def readable(rows: pa.RecordBatch) -> pa.RecordBatch:
            found.append(self.format.parsed(rows.column(self.column)))
            bad = found[-1].errors
            left = rows.filter(_readable(rows.num_rows, bad)) if bad else rows
            return self._beside(left, found[-1].rows)

        made = run(readable, batch)
        errors = found[-1].errors
        if not errors:
            return made, None
        order = sorted(errors)
        return made, self._letters(batch.take(pa.array(order)), [errors[row] for row in order])

    def _beside(self, batch: pa.RecordBatch, made: pa.RecordBatch) -> pa.RecordBatch:
        kept = [name for name in self.keep if name in batch.schema.names]
        columns = [*(batch.column(name) for name in kept), *made.columns]
        fields = [*(batch.schema.field(name) for name in kept), *self.format.columns]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def _letters(self, bad: pa.RecordBatch, errors: list[str]) -> Letters:
        values, at = bad.column(self.column), bad.schema.get_field_index(self.column)
        sizes = pc.binary_length(values).to_pylist()
        cut = [
            error if (size or 0) <= KEPT else f"{error} ({size} bytes; the first {KEPT} are here)"
            for error, size in zip((e[:LONGEST] for e in errors), sizes, strict=True)
        ]
        if pa.types.is_binary(values.type):
            short = pc.binary_slice(values, 0, KEPT)
        else:
            short = pc.utf8_slice_codeunits(values, 0, KEPT)
        rows = row_texts(bad.set_column(at, self.column, short))
        return Letters(errors=cut, rows=rows, offsets=offsets_of(bad))

    def _complaint(self, batch: pa.RecordBatch, parsed: Parsed) -> str:
        first = min(parsed.errors)
        places = [f"{name} {batch.column(name)[first].as_py()}" for name in self.place]
        where = f" at {', '.join(places)}" if places else ""
        shown = batch.column(self.column)[first].as_py()[:SHOWN]
        more = f", as are {len(parsed.errors) - 1} more" if len(parsed.errors) > 1 else ""
        return (
            f"one of {batch.num_rows} values{where} is no {self.format.called} with these columns{more}:"
            f" {parsed.errors[first]} ({shown!r}). Divert such values with on_error='dead_letter'"
        )


def _readable(count: int, errors: Mapping[int, str]) -> pa.Array:
    mask = np.ones(count, bool)
    mask[list(errors)] = False
    return pa.array(mask)
