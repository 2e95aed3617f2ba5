"""Rows that code made, put under the columns that were declared for them."""

from __future__ import annotations

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.model.decoded import decoded


def as_declared(batch: pa.RecordBatch, schema: pa.Schema, maker: str) -> pa.RecordBatch:
    """A batch under the declared columns, in their order and types.

    maker: who made it, for messages. Raises SourceError when the columns do not fit.
    """
    if batch.schema.equals(schema):
        return batch
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        msg = f"{maker} gave the columns {batch.schema.names}, but {missing} are declared too"
        raise SourceError(msg)
    columns = [_fitted(batch.column(field.name), field, maker) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, field: pa.Field, maker: str) -> pa.Array:
    try:
        return decoded(column).cast(field.type)
    except pa.ArrowException as error:
        msg = f"{maker} gave columns that do not fit the declared ones: column {field.name!r}: {error}"
        raise SourceError(msg) from error
