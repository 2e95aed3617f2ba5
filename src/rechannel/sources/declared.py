"""Rows produced by code, converted to the declared columns."""

from __future__ import annotations

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.model.decoded import decoded


def as_declared(batch: pa.RecordBatch, schema: pa.Schema, maker: str) -> pa.RecordBatch:
    """Return a batch with the declared columns, in their order and types.

    maker: what produced it, for messages. Raises SourceError if the columns do not fit.
    """
    if batch.schema.equals(schema):
        return batch
    missing = [name for name in schema.names if name not in batch.schema.names]
    if missing:
        msg = f"{maker} returned the columns {batch.schema.names}, but {missing} are declared too"
        raise SourceError(msg)
    columns = [_fitted(batch.column(field.name), field, maker) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitted(column: pa.Array, field: pa.Field, maker: str) -> pa.Array:
    try:
        return decoded(column).cast(field.type)
    except pa.ArrowException as error:
        msg = f"{maker} returned columns that do not fit the declared ones: column {field.name!r}: {error}"
        raise SourceError(msg) from error
