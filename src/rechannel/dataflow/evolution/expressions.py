"""SQL expressions of migrations: read, tried out and refused before anything runs.

An expression may look at one row and nothing else. What it consists of tells sums and windows. The rest is tried:
example rows a, b, a, null must give together what each of them gives alone, which catches ranks and neighbours.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rechannel.dataflow.evolution.widening import widens
from rechannel.errors import DataflowError, UserFunctionError
from rechannel.kernels.functions.python_rows import fitted
from rechannel.kernels.protocol.migrate import ColumnStep, Compute, Fill, evaluate
from rechannel.model.ddl import type_name
from rechannel.operators.checks import need_columns

_OF_ROWS = ('"Agg":', '"Over":', '"Window":')
"""What polars writes of parts that look at several rows."""

EXAMPLES = 4
"""Rows that an expression is tried with."""


def computed(sql: str, field: pa.Field, given: pa.Schema) -> ColumnStep:
    """A step that makes a column by an expression over the given columns (polars' SQL).

    Raises UnknownColumnError, and DataflowError for what cannot be read, looks at other rows or
    gives another type.
    """
    step = Compute(sql=sql, columns=_columns(sql, given))
    if not step.columns:
        return Fill(value=_constant(step, field))
    kind = _tried(step, given).type
    if not widens(kind, field.type):
        msg = (
            f"{sql!r} gives {type_name(kind)}, but column {field.name!r} is "
            f"{type_name(field.type)}: write CAST(... AS ...) if you mean that"
        )
        raise DataflowError(msg)
    return step


def _columns(sql: str, given: pa.Schema) -> tuple[str, ...]:
    import polars as pl

    try:
        expression = pl.sql_expr(sql)
        names = tuple(dict.fromkeys(expression.meta.root_names()))
        written = expression.meta.serialize(format="json")
    except pl.exceptions.PolarsError as error:
        msg = (
            f"cannot read the expression {sql!r}: {error}; a string that is meant as a value needs "
            "quotes of its own, as in \"'unknown'\""
        )
        raise DataflowError(msg) from error
    need_columns(f"expression {sql!r}", names, given)
    if any(part in written for part in _OF_ROWS):
        raise _other_rows(sql)
    return names


def _constant(step: Compute, field: pa.Field) -> pa.Array:
    """The one value of an expression that names no column."""
    one, three = (_evaluated(step, pa.record_batch({"_": pa.nulls(n)})) for n in (1, 3))
    if len(one) != 1 or len(three) != 1 or not _alike(one, three):
        raise _other_rows(step.sql)
    if one.null_count and not field.nullable:
        msg = f"{step.sql!r} is null, but column {field.name!r} is NOT NULL"
        raise DataflowError(msg)
    try:
        return fitted(one, field.type)
    except pa.ArrowException as error:
        msg = f"{step.sql!r} does not fit column {field.name!r} ({type_name(field.type)}): {error}"
        raise DataflowError(msg) from error


def _tried(step: Compute, given: pa.Schema) -> pa.Array:
    """What the expression makes of examples."""
    fields = [given.field(name) for name in step.columns]
    try:
        return _rowwise(step, [_examples(field.type) for field in fields])
    except UserFunctionError as error:
        # No example can be one that every expression takes: a date in a text, say.
        try:
            return _rowwise(step, [pa.nulls(EXAMPLES, field.type) for field in fields])
        except UserFunctionError:
            raise DataflowError(str(error)) from error


def _rowwise(step: Compute, columns: list[pa.Array]) -> pa.Array:
    batch = pa.RecordBatch.from_arrays(columns, names=list(step.columns))
    whole = evaluate(step, batch)
    alone = [evaluate(step, batch.slice(row, 1)) for row in range(batch.num_rows)]
    if len(whole) != batch.num_rows or not _alike(whole, pa.concat_arrays(alone)):
        raise _other_rows(step.sql)
    return whole


def _evaluated(step: Compute, batch: pa.RecordBatch) -> pa.Array:
    try:
        return evaluate(Compute(sql=step.sql, columns=tuple(batch.schema.names)), batch)
    except UserFunctionError as error:
        raise DataflowError(str(error)) from error


def _examples(kind: pa.DataType) -> pa.Array:
    """Values a, b, a, null of a type, with different a and b if the type has simple ones; else nulls."""
    try:
        if pa.types.is_boolean(kind):
            return pa.array([True, False, True, None])
        if pa.types.is_date(kind) or pa.types.is_temporal(kind):
            plain = pa.int32() if kind.bit_width == 32 else pa.int64()
            return pa.array([86_400_000, 172_800_000, 86_400_000, None], plain).cast(kind)
        return pa.array([1, 2, 1, None], pa.int8()).cast(kind)
    except (pa.ArrowException, ValueError):
        return pa.nulls(EXAMPLES, kind)


def _alike(one: pa.Array, other: pa.Array) -> bool:
    """Whether values are equal, NaN among them."""
    return repr(_plain(one)) == repr(_plain(other))


def _plain(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _other_rows(sql: str) -> DataflowError:
    return DataflowError(
        f"{sql!r} looks at several rows at a time; state is migrated row by row, so what "
        "becomes of a key must follow from its own columns"
    )
