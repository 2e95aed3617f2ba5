"""Spark's columns as tasks see them, and those whose meaning would be lost.

Tasks receive rows as Arrow. Columns that lose their meaning on the way are rejected when a
dataflow is built, with name and type: rows would be grouped and compared differently than in
Spark, or come back as something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import DataflowError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def arrow_schema(columns: StructType) -> pa.Schema:
    """Return Spark's columns as its Arrow exchange shows them; timestamps are in microseconds,
    UTC.

    Raises DataflowError for an unsupported column.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    fields = []
    for column in columns:
        collation = _collation(column.dataType)
        if collation is not None:
            msg = (
                f"column {column.name!r} is {_described(column.dataType)}: rows are grouped and compared byte by byte,"
                f" and not as {collation} does. Use plain text, collate({column.name}, 'UTF8_BINARY'), or, if values"
                f" that are equal under {collation} should be one key, a function of it, such as lower(...)"
            )
            raise DataflowError(msg)
        try:
            fields += list(to_arrow_schema(StructType([column]), timezone="UTC"))
        except PySparkException as error:
            msg = (
                f"column {column.name!r} is {_described(column.dataType)}, which Spark does not pass to Python: cast it"
                " to a type that it does, such as a number or a string"
            )
            raise DataflowError(msg) from error
    return pa.schema(fields)


def _collation(kind: DataType) -> str | None:
    """Return the first collation in a type that does not compare texts by their bytes."""
    named = getattr(kind, "collation", None)
    if named is not None:
        return None if named == "UTF8_BINARY" else str(named)
    return next((found for part in _parts(kind) if (found := _collation(part))), None)


def _parts(kind: Any) -> list[DataType]:
    fields = [field.dataType for field in getattr(kind, "fields", ())]
    nested = (getattr(kind, name, None) for name in ("elementType", "keyType", "valueType"))
    return [*fields, *(each for each in nested if each is not None)]


def _described(kind: DataType) -> str:
    return str(kind.simpleString())
