"""Which rows may be no messages: a look at whole columns, for batches that cannot be written at once.

As with `json_suspects`, a row that is not suspected costs time if it is bad, and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.functions.formats.protobuf.shaped import ENUM, NUMBER, UINT
from rechannel.kernels.functions.formats.protobuf.types import SCALARS


def doubtful(rows: pa.RecordBatch, descriptor: Any) -> np.ndarray:
    """Return the places of rows that may be no messages."""
    found = np.zeros(rows.num_rows, bool)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        field = descriptor.fields_by_name[name]
        if pa.types.is_list(column.type):
            parents = pc.list_parent_indices(column)
            found[parents.filter(column.flatten().is_null()).to_numpy()] = True
        elif pa.types.is_integer(column.type) and field.message_type is None:
            found |= _true(_out_of_range(column, UINT.get(field.type, SCALARS[field.type])))
        elif field.type == ENUM:
            found |= _true(_unknown(column, field.enum_type))
    for choice in descriptor.oneofs:
        there = [rows.column(each.name) for each in choice.fields if each.name in rows.schema.names]
        if len(there) > 1:
            found |= sum(_true(column.is_valid()).astype(int) for column in there) > 1
    return np.flatnonzero(found)


def _out_of_range(column: pa.Array, kind: pa.DataType) -> pa.Array:
    bits = kind.bit_width if pa.types.is_integer(kind) else 64
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    wide = column.cast(pa.decimal128(20, 0))
    bounds = [
        pa.scalar(bound, pa.int64() if bound < 1 << 63 else pa.uint64()) for bound in (low, high)
    ]
    least, most = (bound.cast(pa.decimal128(20, 0)) for bound in bounds)
    return pc.or_(pc.less(wide, least), pc.greater(wide, most))


def _unknown(column: pa.Array, enum: Any) -> pa.Array:
    names = pa.array([each.name for each in enum.values], column.type)
    return pc.invert(
        pc.or_(pc.is_in(column, value_set=names), pc.match_substring_regex(column, NUMBER))
    )


def _true(values: pa.Array) -> np.ndarray:
    made: np.ndarray = values.fill_null(False).to_numpy(zero_copy_only=False)
    return made
