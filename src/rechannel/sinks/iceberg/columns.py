"""Which columns of an Iceberg table rows fit. Pure."""

from __future__ import annotations

import pyarrow as pa

from rechannel.errors import RefusedError


def fitted(schema: pa.Schema, there: pa.Schema, where: str) -> pa.Schema:
    """Return the schema of rows with the types of a table's columns; those that the table lacks keep their types.

    Raises RefusedError if a column has another type, or the table requires one that rows lack.
    """
    fields = []
    for mine in schema:
        its = there.field(mine.name) if mine.name in there.names else mine
        if not _fits(mine.type, its.type):
            msg = (
                f"column {mine.name!r} is {its.type} in {where}, and {mine.type} in the rows: convert it with"
                " select(...)"
            )
            raise RefusedError(msg)
        fields.append(its.remove_metadata())
    lacking = [each.name for each in there if not each.nullable and each.name not in schema.names]
    if lacking:
        names = ", ".join(map(repr, lacking))
        raise RefusedError(f"{where} requires {names}, which the rows lack")
    return pa.schema(fields)


def _fits(mine: pa.DataType, its: pa.DataType) -> bool:
    """Return whether all values of a type are values of another one that a table has."""
    if pa.types.is_signed_integer(mine) and pa.types.is_signed_integer(its):
        return bool(mine.bit_width <= its.bit_width)
    if pa.types.is_floating(mine) and pa.types.is_floating(its):
        return bool(mine.bit_width <= its.bit_width)
    if pa.types.is_timestamp(mine) and pa.types.is_timestamp(its):
        return (mine.tz is None) == (its.tz is None)
    if pa.types.is_decimal(mine) and pa.types.is_decimal(its):
        return bool(mine.scale == its.scale and mine.precision <= its.precision)
    if pa.types.is_nested(mine):
        named = pa.types.is_struct(mine)
        inner = (
            [(mine.field(at), its.field(at)) for at in range(mine.num_fields)]
            if (_plain(mine) == _plain(its) and mine.num_fields == its.num_fields)
            else None
        )
        return inner is not None and all(
            _fits(a.type, b.type) and (not named or a.name == b.name) for a, b in inner
        )
    return _plain(mine) == _plain(its)


def _plain(kind: pa.DataType) -> str:
    """Return the name of a type without how large its values may be."""
    return str(kind).partition("<")[0].removeprefix("large_")
