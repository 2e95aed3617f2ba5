"""Rows in the columns of a schema, by their names. A timestep that is owed may be of another version of the program."""

from __future__ import annotations

import pyarrow as pa


def by_names(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows in the columns of a schema; null where there is no such column. As they are where the names are the same."""
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
    """Spark takes names for the same that differ in case only."""
    return [name.casefold() for name in schema.names]
