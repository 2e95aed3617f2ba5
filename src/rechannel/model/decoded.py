"""Columns decoded to their values: dictionaries, run-end encoding and views are only encodings.

Sources decode rows as they read them, and schemas have the types of the values, so the rest of the
system never meets an encoded column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values; the type itself if it is not encoded."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return decoded_type(kind.value_type)
    if pa.types.is_map(kind):
        return pa.map_(_field(kind.key_field), _field(kind.item_field), kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct([_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_field(kind.value_field), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_list_view(kind):
        return pa.list_(_field(kind.value_field))
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_field(kind.value_field))
    return _VIEWS.get(kind, kind)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types of the values."""
    return pa.schema([_field(field) for field in schema], metadata=schema.metadata)


def decoded(column: pa.Array) -> pa.Array:
    """Return the values of a column. Raises ArrowException if Arrow cannot decode them, as with
    some nested views.
    """
    if pa.types.is_dictionary(column.type):
        return decoded(column.dictionary).take(column.indices)
    if pa.types.is_run_end_encoded(column.type):
        return decoded(pc.run_end_decode(column))
    kind = decoded_type(column.type)
    if _lists(column.type):
        return _listed(column, kind)
    if _inside(column.type):
        msg = (
            f"{column.type} contains list views, which can be decoded only as columns of their own"
        )
        raise pa.ArrowNotImplementedError(msg)
    return column if column.type == kind else column.cast(kind)


def decoded_table(table: pa.Table) -> pa.Table:
    """Return a table with the values of its columns. Raises ArrowException as `decoded` does."""
    schema = decoded_schema(table.schema)
    if schema == table.schema:
        return table
    columns = [
        pa.chunked_array([decoded(chunk) for chunk in column.chunks], type=field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _listed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert list views to lists. Arrow's own cast loses values (in 26.0)."""
    lengths = pc.fill_null(column.value_lengths(), 0).to_numpy(zero_copy_only=False)
    large = pa.types.is_large_list(kind)
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int64() if large else pa.int32())
    made = pa.LargeListArray if large else pa.ListArray
    mask = column.is_null() if column.null_count else None
    return made.from_arrays(offsets, decoded(column.flatten()), type=kind, mask=mask)


def _lists(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def _inside(kind: pa.DataType) -> bool:
    """Return whether a nested type contains list views."""
    parts = [kind.field(i).type for i in range(kind.num_fields)]
    return any(_lists(part) or _inside(part) for part in parts)


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(decoded_type(field.type))
