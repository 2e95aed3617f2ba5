"""Columns of equal length, outside of a record batch."""

from __future__ import annotations

import pyarrow as pa

Columns = list[pa.Array]
"""Columns of equal length; the schema that goes with them names the fields."""


def columns_of(batch: pa.RecordBatch, schema: pa.Schema) -> Columns:
    """Columns of a schema, by name."""
    return [batch.column(batch.schema.get_field_index(name)) for name in schema.names]
