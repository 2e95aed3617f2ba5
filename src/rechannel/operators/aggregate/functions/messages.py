"""Errors of the aggregates: which aggregate, which column, which type, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from rechannel.errors import DataflowError, TimestepError


def schema_error(aggregate: str, field: pa.Field, takes: str) -> DataflowError:
    """The error for a column of a type that an aggregate cannot take.

    aggregate: name as users write it ("sum"). takes: the types it takes, in words.
    """
    msg = (
        f"{aggregate}({field.name!r}) cannot take column {field.name!r} of type {field.type}: "
        f"it takes {takes}. Cast the column before the aggregate, or choose another one."
    )
    return DataflowError(msg)


@contextmanager
def overflow_named(aggregate: str, column: str, result: pa.DataType) -> Iterator[None]:
    """Turn an OverflowError of the arithmetic into a TimestepError that names the aggregate."""
    try:
        yield
    except OverflowError as error:
        msg = (
            f"{aggregate}({column!r}) does not fit its result type {result}. Cast column "
            f"{column!r} to decimal(38, s) for an exact result or to double for a rounded one."
        )
        raise TimestepError(msg) from error
