"""Concatenate columns, even if the result has more bytes than 32-bit offsets reach.

Arrow's strings, binaries and lists hold at most 2 GiB. Tasks cut their work so that columns stay far below that. The
rows of one key cannot be cut: their columns get 64-bit offsets instead, until the rows have been cut or are few again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns

LIMIT = 1 << 31
"""Bytes, or elements, that 32-bit offsets reach. Tests lower it."""


def joined(pieces: Sequence[pa.Array]) -> pa.Array:
    """Concatenate pieces of a column, with 64-bit offsets if 32-bit ones do not reach."""
    first = pieces[0]
    if len(pieces) == 1:
        return first
    alike = all(piece.type.equals(first.type) for piece in pieces)
    if alike and (_fixed(first.type) or sum(piece.nbytes for piece in pieces) < LIMIT):
        return pa.concat_arrays(pieces)
    return pa.concat_arrays([piece.cast(wide_type(piece.type)) for piece in pieces])


def narrowed(columns: Columns, schema: pa.Schema) -> Columns:
    """Cast columns back to the types of a schema. Raises pyarrow.ArrowInvalid if one does not fit."""
    return [narrow(column, field.type) for column, field in zip(columns, schema, strict=True)]


def narrow(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column back to a type. Raises pyarrow.ArrowInvalid if it does not fit."""
    if column.type.equals(kind):
        return column
    if column.nbytes >= LIMIT:
        msg = f"{column.nbytes} bytes are more than the offsets of {kind} reach"
        raise pa.ArrowInvalid(msg)
    return column.cast(kind)


def wide_columns(columns: Columns, schema: pa.Schema) -> list[str]:
    """Return the names of the columns with 64-bit offsets whose field in the schema has 32-bit ones."""
    return [
        field.name
        for column, field in zip(columns, schema, strict=True)
        if not column.type.equals(field.type) and column.type.equals(wide_type(field.type))
    ]


@cache
def wide_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with 64-bit offsets in place of 32-bit ones, at every level."""
    if pa.types.is_string(kind):
        return pa.large_string()
    if pa.types.is_binary(kind):
        return pa.large_binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(wide_type(kind.value_type)))
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return pa.struct([field.with_type(wide_type(field.type)) for field in fields])
    return kind


@cache
def _fixed(kind: pa.DataType) -> bool:
    """Return whether a type has no 32-bit offsets at any level."""
    return bool(wide_type(kind).equals(kind))
