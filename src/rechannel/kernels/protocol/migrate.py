"""Convert stored state, row by row, to the state columns of an operator's new logic.

When logic with other state columns takes over, nothing is rewritten. A run's metadata has the fingerprint of the
columns that it was written with. A run with earlier columns is converted when it is read. Merges write the new columns,
so runs with old ones disappear over time.

Row i of the result follows from row i alone. So it does not matter which rows are converted together, by which
task, how often, or whether before or after a merge: the state is the same as if all of it had been converted at
the moment of the change. Tombstones are not converted, since they have no state.

*Expired keys.* A key whose timeout has passed counts as absent, but its row stays until a merge drops it. If the new
logic has a longer timeout or none, such a row must not count again. So a migration also knows which rows had expired at
the moment of the change (`expired_before_ms`) and turns them into tombstones.

*Schema versions.* A run knows its columns, not when they were in force. If an operator goes from columns A to B and
back to A, runs of the first A must go through both migrations and runs of the second must not. So every migration
begins a state schema version with its own fingerprint, even if its columns are those of an earlier one. A driver that
reverts a change is the exception: it returns to the earlier version, since both runs of A then mean the same
(`engine.program.schema_versions`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.columnar.sparse import SEEN, spread
from rechannel.kernels.functions.python_rows import fitted
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.model.buffers import Mask
from rechannel.model.ddl import type_name

Convert = Callable[[pa.RecordBatch], pa.RecordBatch]
"""(key columns and old state columns) -> new state columns, row i from row i alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Carry:
    """An old column, perhaps under another name, in its type or in a wider one."""

    column: int
    """Its place among the old state columns."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Fill:
    """One value for every row."""

    value: pa.Array
    """An array of length 1 in the new column's type."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Compute:
    """A SQL expression (of polars) over key and old state columns."""

    sql: str
    columns: tuple[str, ...]
    """Columns that the expression names."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """The column of this name in what the user's function returns."""


ColumnStep = Carry | Fill | Compute | Answer


@dataclass(frozen=True, eq=False, kw_only=True)
class Migration:
    """Converts the state columns of one schema version into those of the next."""

    key_schema: pa.Schema
    """Key columns, which stay the same."""
    from_schema: pa.Schema
    """Old state columns."""
    to_schema: pa.Schema
    """New state columns."""
    steps: tuple[ColumnStep, ...]
    """What makes each column of `to_schema`, in its order."""
    function: Convert | None = None
    """Returns the columns of `Answer` steps."""
    expired_before_ms: int | None = None
    """Rows whose `_seen` lies before (Unix milliseconds) have no state any more; None = all rows have."""

    def __post_init__(self) -> None:
        """Check that each new column has a step, and that steps have what they need."""
        answered = any(isinstance(step, Answer) for step in self.steps)
        if len(self.steps) != len(self.to_schema) or answered != (self.function is not None):
            msg = f"{len(self.steps)} steps cannot make {len(self.to_schema)} columns"
            raise ValueError(msg)
        if self.expired_before_ms is not None and SEEN not in self.from_schema.names:
            msg = f"when keys were last seen is unknown: the state has no column {SEEN!r}"
            raise ValueError(msg)

    def alive(self, columns: Columns) -> Mask | None:
        """Return which rows (key and old state columns) still counted at the change; None = all."""
        if self.expired_before_ms is None:
            return None
        seen = columns[len(self.key_schema) + self.from_schema.get_field_index(SEEN)]
        kept: Mask = seen.fill_null(0).to_numpy(zero_copy_only=False) >= self.expired_before_ms
        return None if kept.all() else kept

    def apply(self, columns: Columns) -> Columns:
        """Convert key and old state columns into key and new state columns of the same rows.

        Raises UserFunctionError if a value cannot be converted.
        """
        schema = pa.schema([*self.key_schema, *self.from_schema])
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        answer = None if self.function is None else self._call(self.function, batch)
        made = [
            self._made(step, field, batch, answer)
            for step, field in zip(self.steps, self.to_schema, strict=True)
        ]
        return [*columns[: len(self.key_schema)], *made]

    def _made(
        self,
        step: ColumnStep,
        field: pa.Field,
        batch: pa.RecordBatch,
        answer: pa.RecordBatch | None,
    ) -> pa.Array:
        if isinstance(step, Carry):
            old = batch.column(len(self.key_schema) + step.column)
            return old if old.type == field.type else old.cast(field.type)
        if isinstance(step, Fill):
            return step.value.take(pa.array(np.zeros(batch.num_rows, dtype=np.int64)))
        if isinstance(step, Compute):
            column = evaluate(step, batch)
            return _checked(column, field, batch.num_rows, f"migration {step.sql!r}")
        name = function_name(self.function)
        if answer is None or answer.schema.names.count(field.name) != 1:
            known = [] if answer is None else answer.schema.names
            msg = f"{name} must answer the column {field.name!r} once; it gave {', '.join(known)}"
            raise UserFunctionError(msg)
        return _checked(answer.column(field.name), field, batch.num_rows, f"migration {name}")

    def _call(self, function: Convert, batch: pa.RecordBatch) -> pa.RecordBatch:
        name = function_name(function)
        try:
            answer: Any = function(batch)
        except Exception as error:
            raise user_error(f"migration {name} for {batch.num_rows} keys", error) from error
        if not isinstance(answer, pa.RecordBatch) or answer.num_rows != batch.num_rows:
            rows = getattr(answer, "num_rows", None)
            got = type(answer).__name__ if rows is None else f"{rows} rows"
            msg = (
                f"migration {name} must answer a RecordBatch of {batch.num_rows} rows, one per key;"
                f" it gave {got}"
            )
            raise UserFunctionError(msg)
        return answer


Chain = tuple[Migration, ...]
"""Successive migrations, oldest first."""

ADVICE = (
    "\n\nEither fix the function, so that its result for all other rows stays the same, and start with"
    " mended=True; or start the program from before the change with start(revert=True), which reverts it."
)
"""What to do if a migration fails in a timestep, after the change has begun."""


def evaluate(step: Compute, batch: pa.RecordBatch) -> pa.Array:
    """Evaluate an expression for all rows, in whatever type it has. Raises UserFunctionError."""
    import polars as pl

    try:
        frame = pl.from_arrow(batch.select(list(dict.fromkeys(step.columns))))
        made = frame.select(pl.sql_expr(step.sql).alias("value"))  # type: ignore[union-attr]
    except (pl.exceptions.PolarsError, pa.ArrowException, ValueError, TypeError) as error:
        msg = f"migration {step.sql!r} failed: {type(error).__name__}: {error}"
        raise UserFunctionError(msg) from error
    return made.to_arrow().column(0).combine_chunks()


def converted(
    chain: Chain, columns: Columns, dropped: Mask | None = None, *, origin: str = ""
) -> tuple[Columns, Mask | None]:
    """Apply a chain of migrations to key and state columns; return the columns and which rows are tombstones.

    dropped: which rows are tombstones already; their state becomes null. origin: what messages call the rows.
    """
    count = len(columns[0])
    live = np.arange(count) if dropped is None else np.flatnonzero(~dropped)
    given = columns if len(live) == count else take(columns, live)
    try:
        for migration in chain:
            alive = migration.alive(given)
            if alive is not None:
                given, live = take(given, np.flatnonzero(alive)), live[alive]
            given = migration.apply(given)
    except UserFunctionError as error:
        msg = f"{origin}: {error}{ADVICE}" if origin else str(error)
        raise UserFunctionError(msg) from error
    if len(live) == count:
        return given, None
    gone = np.ones(count, dtype=np.bool_)
    gone[live] = False
    keys = len(chain[0].key_schema)
    return [*columns[:keys], *(spread(column, live, count) for column in given[keys:])], gone


def fingerprint(keys: pa.Schema, state: pa.Schema) -> str:
    """Return 16 hex digits that change when names, types or the order of key or state columns change.

    Whether a column is nullable does not count: an engine may infer it differently the next time.
    """
    fields = [pa.field(field.name, field.type) for field in (*keys, *state)]
    return hashlib.sha256(pa.schema(fields).serialize().to_pybytes()).hexdigest()[:16]


def _checked(column: pa.Array, field: pa.Field, rows: int, what: str) -> pa.Array:
    """Cast a column from the user's code to the type of its field. Raises UserFunctionError if it does not fit."""
    if len(column) != rows:
        msg = f"{what}: returned {len(column)} values for {rows} rows of state; return one row for each"
        raise UserFunctionError(msg)
    try:
        made = fitted(column, field.type)
    except pa.ArrowException as error:
        msg = (
            f"{what}: column {field.name!r} is declared {type_name(field.type)}, "
            f"{type_name(column.type)} does not fit: {error}"
        )
        raise UserFunctionError(msg) from error
    if not field.nullable and made.null_count:
        msg = (
            f"{what}: column {field.name!r} is NOT NULL, but {made.null_count} of {rows} values are null; return a"
            " value for each row, or declare the column nullable"
        )
        raise UserFunctionError(msg)
    return made
