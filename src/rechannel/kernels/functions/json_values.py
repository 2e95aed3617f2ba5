"""Texts of JSON objects as columns, a batch at a time."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import Apart, Letters, OnError, Run
from rechannel.kernels.functions.select import need
from rechannel.model.ddl import type_name

_SHOWN = 200


@dataclass(frozen=True, eq=False, kw_only=True)
class JsonValues:
    """Reads the columns of a schema from the JSON objects in one column.

    Members that the schema does not have are ignored, and columns without a member are null, as is every column for a
    null. A value of another type does not fit: a text is no number, 1.5 is no whole number.
    """

    columns: pa.Schema
    column: str
    """Column with the objects: text or binary, in UTF-8."""
    keep: tuple[str, ...] = ()
    """Columns that stay beside the new ones."""
    on_error: OnError = "fail"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that stay, and the new ones. Raises DataflowError, UnknownColumnError."""
        need((self.column, *self.keep), schema)
        kind = schema.field(self.column).type
        if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            raise DataflowError(
                f"column {self.column!r} is {type_name(kind)}: JSON is in texts or binaries"
            )
        both = [name for name in self.keep if name in self.columns.names]
        if both:
            raise DataflowError(
                f"column {both[0]!r} is kept, and is a member of the objects too: rename it"
            )
        return pa.schema([*(schema.field(name) for name in self.keep), *self.columns])

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return the objects and the columns that stay and are wanted."""
        return {self.column, *(name for name in self.keep if name in wanted)}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a batch. Raises ValueError if an object does not fit."""
        kept = [name for name in self.keep if name in batch.schema.names]
        made = self._parsed(batch.column(self.column))
        columns = [*(batch.column(name) for name in kept), *made.columns]
        fields = [*(batch.schema.field(name) for name in kept), *self.columns]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Separate the rows that do not fit. See `dead_letters.Dividing`."""
        return Apart(function=self).divided(batch, run)

    def _parsed(self, values: pa.Array) -> pa.RecordBatch:
        if not len(values):
            return pa.RecordBatch.from_pylist([], self.columns)
        try:
            lines = _lines(values)
            table = pj.read_json(
                pa.BufferReader(lines),
                read_options=pj.ReadOptions(use_threads=False, block_size=max(1, lines.size + 1)),
                parse_options=pj.ParseOptions(
                    explicit_schema=self.columns, unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid as error:
            raise ValueError(f"{error} ({_shown(values)})") from None
        if table.num_rows != len(values):
            raise ValueError(
                f"{len(values)} values hold {table.num_rows} objects ({_shown(values)})"
            )
        (made,) = table.combine_chunks().to_batches()
        return pa.RecordBatch.from_arrays(made.columns, schema=self.columns)


def _lines(values: pa.Array) -> pa.Buffer:
    """Return one value per line. Raises ValueError for an empty one, which would not be a line."""
    texts = values.cast(pa.large_binary()).cast(pa.large_string())
    texts = pc.fill_null(texts, pa.scalar("{}", pa.large_string()))
    # Line breaks stand between the parts of an object only: within a text, JSON has them as escapes.
    texts = pc.replace_substring_regex(texts, r"[\r\n]", " ")
    if pc.any(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)).as_py():
        raise ValueError(f"an empty value is no object ({_shown(values)})")
    lists = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined = pc.binary_join(lists, pa.scalar("\n", pa.large_string()))
    buffer: pa.Buffer = joined[0].as_buffer()
    return buffer


def _shown(values: pa.Array) -> str:
    first = values[0].as_py()
    if len(values) > 1 or first is None:
        return f"one of {len(values)} values"
    return repr(first[:_SHOWN])
