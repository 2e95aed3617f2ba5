"""Columns of equal length, outside of a record batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rechannel.model.buffers import buffer_items, numbers

Columns = list[pa.Array]
"""Columns of equal length; the schema that goes with them names the fields."""


def columns_of(batch: pa.RecordBatch, schema: pa.Schema) -> Columns:
    """Columns of a schema, by name."""
    return [batch.column(batch.schema.get_field_index(name)) for name in schema.names]


def uniform(column: pa.Array) -> bool:
    """Return whether all rows are known to be alike: integers or texts of one value, or nulls.

    If the first and the last row differ, it reads no others.
    """
    kind, rows = column.type, len(column)
    if not rows or column.null_count:
        return bool(rows) and column.null_count == rows
    if pa.types.is_integer(kind):
        values = numbers(column)
        return bool(values[0] == values[-1] and (values == values[0]).all())
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return False
    _, places, texts = column.buffers()
    offsets = buffer_items(places, np.dtype(np.int32), column.offset, rows + 1)
    start, stop, width = int(offsets[0]), int(offsets[-1]), int(offsets[1] - offsets[0])
    if stop - start != rows * width:
        return False
    data = buffer_items(texts, np.dtype(np.uint8), start, stop - start)
    if data[:width].tobytes() != data[len(data) - width :].tobytes():
        return False
    alike = bool((offsets[1:] - offsets[:-1] == width).all())
    return alike and bool((data[width:] == data[: len(data) - width]).all())
