"""Rows as records: keys, values and times. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.json_objects import json_objects
from rechannel.sinks.keyed_changes import net
from rechannel.sinks.keyed_rows import check_no_nulls


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Which columns records are made of; an empty name stands for no column or, for the value, for all."""

    key: str
    value: str
    timestamp: str

    def check(self, schema: pa.Schema, sink: str) -> None:
        """Raise DataflowError if rows do not have these columns, with types that records can have."""
        for what, name, fits in (
            ("key", self.key, _is_key),
            ("value", self.value, _is_bytes),
            ("timestamp", self.timestamp, pa.types.is_timestamp),
        ):
            if not name:
                continue
            if name not in schema.names:
                there = ", ".join(schema.names)
                msg = f"sink {sink!r}: there is no column {name!r} for {what}; there are {there}"
                raise DataflowError(msg)
            kind = schema.field(name).type
            if not fits(kind):
                msg = f"sink {sink!r}: column {name!r} is {kind}, which cannot be the {what} of a record"
                raise DataflowError(msg)

    def records(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[bytes | None, bytes | None, int | None]]:
        """Yield key, value and milliseconds of each row."""
        none = [None] * batch.num_rows
        keys = _bytes(batch.column(self.key)) if self.key else none
        value = batch.column(self.value) if self.value else json_objects(batch)
        times = _millis(batch.column(self.timestamp)) if self.timestamp else none
        return zip(keys, _bytes(value), times, strict=True)

    def changed(
        self, rows: pa.Table, changes: str, where: str
    ) -> Iterator[tuple[bytes | None, bytes | None, int | None]]:
        """Yield one record per key of a changelog: its row, or no value if it is gone. changes: their column.

        Raises RefusedError for a row without a key.
        """
        check_no_nulls(rows, (self.key,), where)
        written = net(rows, (self.key,), changes, where)
        for batch in written.gone.to_batches():
            for key, _, at_ms in self.records(batch):
                yield key, None, at_ms
        for batch in written.present.to_batches():
            yield from self.records(batch)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_key(kind: pa.DataType) -> bool:
    return _is_bytes(kind) or bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _bytes(column: pa.Array) -> list[bytes | None]:
    """Return texts in UTF-8, and numbers as their text."""
    if not _is_bytes(column.type):
        column = column.cast(pa.string())
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    made: list[bytes | None] = column.cast(pa.large_binary() if large else pa.binary()).to_pylist()
    return made


def _millis(column: pa.Array) -> list[int | None]:
    made: list[int | None] = (
        pc.floor_temporal(column, unit="millisecond")
        .cast(pa.timestamp("ms", column.type.tz))
        .cast(pa.int64())
        .to_pylist()
    )
    return made
