"""`select`, and `filter` by a function of columns. Both know which columns they read.

A function receives Arrow arrays and returns one of the same length, or a scalar for all rows. Calling it with empty
arrays gives the type of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError, UnknownColumnError, UserFunctionError
from rechannel.kernels.functions.user_errors import function_name
from rechannel.model.ddl import type_name


@dataclass(frozen=True, kw_only=True)
class Computed:
    """A column computed from others."""

    function: Callable[..., Any]
    """(Arrow array per column) -> Arrow array or scalar."""
    columns: tuple[str, ...]
    """Columns that the function receives, in this order."""
    kind: pa.DataType | None = None
    """Type of the result; None means the type that the function returns."""

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values for the rows of a batch. Raises UserFunctionError."""
        made = self.function(*(batch.column(c) for c in self.columns))
        if isinstance(made, pa.ChunkedArray):
            made = made.combine_chunks()
        if isinstance(made, pa.Scalar):
            made = pa.repeat(made, batch.num_rows)
        if not isinstance(made, pa.Array) or len(made) != batch.num_rows:
            size = f" of {len(made)} values" if isinstance(made, pa.Array) else ""
            msg = (
                f"{function_name(self.function)} returned {type(made).__name__}{size} for {batch.num_rows} rows; it"
                " must return an Arrow array with one value per row, or a scalar"
            )
            raise UserFunctionError(msg)
        return made if self.kind is None or made.type == self.kind else made.cast(self.kind)

    def type_in(self, schema: pa.Schema) -> pa.DataType:
        """Return the type, given the schema of the rows. Raises DataflowError, UnknownColumnError."""
        need(self.columns, schema)
        if self.kind is not None:
            return self.kind
        try:
            kind = self.of(_empty(schema)).type
        except Exception as error:
            msg = (
                f"{function_name(self.function)} fails for empty columns, so the type that it returns is not known:"
                f" declare it with returns= ({type(error).__name__}: {error})"
            )
            raise DataflowError(msg) from error
        if pa.types.is_null(kind):
            msg = (
                f"{function_name(self.function)} returns an array without a type for empty columns, so the type that it"
                " returns is not known: declare it with returns="
            )
            raise DataflowError(msg)
        return kind


@dataclass(frozen=True, kw_only=True)
class Select:
    """Selects columns by name, or computes them."""

    columns: tuple[tuple[str, str | Computed], ...]
    """(name of the result, column or computation). ("*", "*") stands for all columns of the input."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns whose inputs the batch has; others were pruned."""
        there = set(batch.schema.names)
        made = {
            name: batch.column(of) if isinstance(of, str) else of.of(batch)
            for name, of in self._spelt(batch.schema.names)
            if there.issuperset(_inputs(of))
        }
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return the input columns that the wanted columns are computed from."""
        own = {name for name, _ in self.columns}
        out = {column for name, of in self.columns if name in wanted for column in _inputs(of)}
        return out | (wanted - own if ("*", "*") in self.columns else set())

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the result. Raises DataflowError, UnknownColumnError."""
        fields = []
        for name, of in self._spelt(schema.names):
            need(_inputs(of), schema)
            if isinstance(of, str):
                fields.append(schema.field(of).with_name(name))
            else:
                fields.append(pa.field(name, of.type_in(schema)))
        names = [field.name for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            msg = f"column {twice!r} is selected twice; give one of the two another name"
            raise DataflowError(msg)
        return pa.schema(fields)

    def _spelt(self, names: Sequence[str]) -> Iterator[tuple[str, str | Computed]]:
        """Yield the columns and their inputs with "*" expanded; columns named beside "*" replace those of the input."""
        own = {name for name, _ in self.columns}
        for name, of in self.columns:
            if name == "*":
                yield from ((other, other) for other in names if other not in own)
            else:
                yield name, of


@dataclass(frozen=True, kw_only=True)
class Where:
    """Keeps the rows for which a computed column is true."""

    condition: Computed

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Filter a batch."""
        return batch.filter(self.condition.of(batch))

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return the wanted columns and those of the condition."""
        return wanted | set(self.condition.columns)

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema unchanged. Raises DataflowError, UnknownColumnError."""
        kind = self.condition.type_in(schema)
        if not pa.types.is_boolean(kind):
            name = function_name(self.condition.function)
            msg = f"{name} returns {type_name(kind)}; a condition must return booleans"
            raise DataflowError(msg)
        return schema


def need(columns: Sequence[str], schema: pa.Schema) -> None:
    """Raise UnknownColumnError unless the schema has all of these columns."""
    for column in columns:
        if column not in schema.names:
            msg = f"no column {column!r}; the columns are {', '.join(schema.names)}"
            raise UnknownColumnError(msg)


def _inputs(of: str | Computed) -> tuple[str, ...]:
    return (of,) if isinstance(of, str) else of.columns


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
