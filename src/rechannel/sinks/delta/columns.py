"""Which types columns of rows have in a table of Delta Lake. Pure."""

from __future__ import annotations

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError


def type_of(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that a column has in a table, None if it can have none."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_map(kind):
        each = type_of(kind.key_type), type_of(kind.item_type)
        return None if None in each else pa.map_(*each)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of = type_of(kind.value_type)
        return None if of is None else pa.list_(of)
    if pa.types.is_struct(kind):
        fields = [(each.name, type_of(each.type)) for each in kind]
        return None if any(of is None for _, of in fields) else pa.struct(fields)
    signed = pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind)
    real = pa.types.is_float32(kind) or pa.types.is_float64(kind) or pa.types.is_decimal128(kind)
    plain = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_date32(kind)
    return kind if signed or real or plain else None


def check_columns(schema: pa.Schema, sink: str) -> None:
    """Raise DataflowError for a column that no table can have."""
    for each in schema:
        if type_of(each.type) is None:
            msg = f"sink {sink!r}: Delta Lake has no type for column {each.name!r}, which is {each.type}"
            raise DataflowError(msg)


def check_fits(schema: pa.Schema, there: pa.Schema, where: str) -> None:
    """Raise RefusedError if a column has another type in the table. Columns that the table lacks are added to it."""
    for each in schema:
        if each.name not in there.names:
            continue
        mine, its = type_of(each.type), type_of(there.field(each.name).type)
        if mine is not None and its is not None and not _alike(mine, its):
            msg = f"column {each.name!r} is {its} in {where}, and {mine} in the rows: convert it with select(...)"
            raise RefusedError(msg)


def _alike(one: pa.DataType, two: pa.DataType) -> bool:
    """Return whether types are equal but for the names and nullability of what they contain."""
    if pa.types.is_nested(one) and one.id == two.id and one.num_fields == two.num_fields:
        pairs = [(one.field(at), two.field(at)) for at in range(one.num_fields)]
        named = pa.types.is_struct(one)
        return all(_alike(a.type, b.type) and (not named or a.name == b.name) for a, b in pairs)
    return bool(one.equals(two))
