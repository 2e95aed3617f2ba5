"""Rows in the columns of a schema, by name. An unpublished timestep may stem from another version
of the program.
"""

from __future__ import annotations

import pyarrow as pa


def by_names(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in the columns of a schema; null if a column is missing. Unchanged if the names
    are equal.
    """
    if _folded(rows.schema) == _folded(schema):
        return rows
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _folded(schema: pa.Schema) -> list[str]:
    """Return names in the form in which Spark compares them, which ignores case."""
    return [name.casefold() for name in schema.names]
