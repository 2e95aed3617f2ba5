"""Columns that Arrow's JSON reader reads as texts first: dates and bytes, as `json_objects` writes them. Pure."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.model.ddl import type_name

SHOWN = 40
"""Characters of a text in an error."""

_TYPES = pa.types
_READ = (
    _TYPES.is_null, _TYPES.is_boolean, _TYPES.is_integer, _TYPES.is_float32, _TYPES.is_float64, _TYPES.is_decimal,
    _TYPES.is_string, _TYPES.is_large_string, _TYPES.is_string_view, _TYPES.is_timestamp, _TYPES.is_time,
)  # fmt: skip
"""Types that Arrow's reader reads."""


@lru_cache(64)
def read_as(schema: pa.Schema) -> pa.Schema:
    """Return the columns as Arrow's reader has to read them: `as_declared` then makes the declared ones of them.

    Raises DataflowError that names a column which cannot be read from JSON.
    """
    return pa.schema([field.with_type(_read_as(field.type, field.name)) for field in schema])


def _read_as(kind: pa.DataType, name: str) -> pa.DataType:
    if _is_text(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([f.with_type(_read_as(f.type, f"{name}.{f.name}")) for f in fields])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_read_as(kind.value_type, name)))
    if any(reads(kind) for reads in _READ):
        return kind
    instead = "keep the column of the texts with keep=, and read them with map_batches"
    if pa.types.is_map(kind):
        instead = f"declare it as a STRUCT with the members that you need, or {instead}"
    raise DataflowError(
        f"column {name!r} is {type_name(kind)}, which cannot be read from JSON: {instead}"
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_date(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    )


def as_declared(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what was read of a column as the declared type. Raises ValueError if a text does not fit."""
    if column.type.equals(kind):
        return column
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        parts = [as_declared(column.field(at), field.type) for at, field in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
    if pa.types.is_list(kind):
        return _list(column, kind)
    return _date(column, kind) if pa.types.is_date(kind) else _bytes(column, kind)


def _list(column: pa.Array, kind: pa.DataType) -> pa.Array:
    # A list is null where its offset is. Null lists hold no values here.
    there = pa.concat_arrays([column.is_valid(), pa.array([True])])
    offsets = pc.if_else(there, column.offsets, pa.scalar(None, pa.int32()))
    values = as_declared(column.values, kind.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def _date(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(pa.date32()).cast(kind)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from None


def _bytes(column: pa.Array, kind: pa.DataType) -> pa.Array:
    import polars as pl

    made = pl.Series(pl.from_arrow(column)).str.decode("base64", strict=False).to_arrow()
    wrong = pc.and_(column.is_valid(), made.is_null())
    if pc.any(wrong).as_py():
        text = column.filter(wrong)[0].as_py()
        raise ValueError(f"{text[:SHOWN]!r} is no base64, in which JSON has bytes")
    return made.cast(kind)
