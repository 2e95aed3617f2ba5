"""Functions of one row at a time, as functions of a record batch: `map`, `flat_map`, `filter`.

A row is a NamedTuple of the stream's columns. A result is a tuple in the order of the declared columns, or a dict by
their names. If one column is declared, any other value is the value of that column.

With `on_error="dead_letter"`, rows for which a function raises, or returns a value that does not fit, become dead
letters (`functions.dead_letters`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.dead_letters import (
    Letters,
    MayDivide,
    Run,
    error_text,
    letters_of,
    misfits,
    row_texts,
)
from rechannel.kernels.functions.python_rows import Unheld, check_tuples, columns_of, python_rows
from rechannel.kernels.functions.user_errors import function_name, user_error


@dataclass(frozen=True, eq=False, kw_only=True)
class RowMap(MayDivide):
    """Maps each row to one row."""

    function: Callable[[Any], Any]
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the function to every row. Raises UserFunctionError naming the row."""
        rows = rows_of(batch, self.function)
        answers: list[Any] = []
        try:
            answers.extend(map(self.function, rows))
        except Exception as error:
            raise _error(self.function, rows[len(answers)], error) from error
        return _batch(answers, self.schema, self.function)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Apply the function to every row; the rows that it fails for become dead letters."""
        del run
        answers, failed = _tried(self.function, batch)
        made = _fitting({row: [each] for row, each in answers.items()}, failed, self)
        return [made], letters_of(batch, failed)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowFlatMap(MayDivide):
    """Maps each row to any number of rows."""

    function: Callable[[Any], Iterable[Any]]
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the function to every row. Raises UserFunctionError naming the row."""
        answers: list[Any] = []
        for row in rows_of(batch, self.function):
            try:
                answers.extend(self.function(row))
            except Exception as error:
                raise _error(self.function, row, error) from error
        return _batch(answers, self.schema, self.function)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Apply the function to every row. Returns the results, and dead letters of the rows for which it failed."""
        del run
        answers, failed = _tried(lambda row: list(self.function(row)), batch)
        return [_fitting(answers, failed, self)], letters_of(batch, failed)


@dataclass(frozen=True, eq=False, kw_only=True)
class RowFilter(MayDivide):
    """Keeps the rows for which the function returns a true value."""

    function: Callable[[Any], Any]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Apply the function to every row. Raises UserFunctionError naming the row."""
        rows = rows_of(batch, self.function)
        keep: list[bool] = []
        try:
            keep.extend(bool(self.function(row)) for row in rows)
        except Exception as error:
            raise _error(self.function, rows[len(keep)], error) from error
        return batch.filter(pa.array(keep, pa.bool_()))

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Apply the function to every row; the rows that it fails for become dead letters."""
        del run
        answers, failed = _tried(lambda row: bool(self.function(row)), batch)
        keep = [answers.get(row, False) for row in range(batch.num_rows)]
        return [batch.filter(pa.array(keep, pa.bool_()))], letters_of(batch, failed)


def rows_of(batch: pa.RecordBatch, function: object) -> list[Any]:
    """Return each row as a NamedTuple. Raises UserFunctionError for a value that Python cannot represent."""
    rows, unheld = _held_rows(batch)
    if unheld:
        row = min(unheld)
        (text,) = row_texts(batch.slice(row, 1))
        msg = f"{function_name(function)} cannot be called with the row {text}: {unheld[row]}"
        raise UserFunctionError(msg)
    return rows


def _held_rows(batch: pa.RecordBatch) -> tuple[list[Any], Unheld]:
    """Return each row as a NamedTuple, and the rows with a value that Python cannot represent."""
    unheld: Unheld = {}
    names = tuple(batch.schema.names)
    return python_rows(batch.columns, names, batch.num_rows, unheld=unheld), unheld


def _tried(
    function: Callable[[Any], Any], batch: pa.RecordBatch
) -> tuple[dict[int, Any], dict[int, str]]:
    """Return the results of a function, and the errors that it raised, by row."""
    answers: dict[int, Any] = {}
    rows, failed = _held_rows(batch)
    each: Iterable[tuple[int, Any]] = enumerate(rows)
    if failed:
        each = [(number, row) for number, row in each if number not in failed]
    for number, row in each:
        try:
            answers[number] = function(row)
        except MemoryError:
            raise
        except Exception as error:
            failed[number] = error_text(error)
    return answers, failed


def _fitting(
    answers: Mapping[int, list[Any]], failed: dict[int, str], made_by: RowMap | RowFlatMap
) -> pa.RecordBatch:
    """Return results as a batch; rows with one that does not fit are added to `failed`. answers: results by row."""
    schema, function = made_by.schema, made_by.function

    def made(some: Sequence[int]) -> pa.RecordBatch:
        return _batch([each for row in some for each in answers[row]], schema, function)

    rows = list(answers)
    try:
        return made(rows)
    except UserFunctionError:
        unfit = misfits(rows, made)
    failed.update(unfit)
    return made([row for row in rows if row not in unfit])


def _batch(answers: list[Any], schema: pa.Schema, function: object) -> pa.RecordBatch:
    name = function_name(function)

    def what(row: int) -> str:
        which = f"row {row} of " if len(answers) > 1 else ""
        return f"{which}what {name} returned"

    tuples = [as_tuple(answer, schema, name) for answer in answers]
    check_tuples(tuples, schema, what)
    return pa.RecordBatch.from_arrays(columns_of(tuples, schema, what), schema=schema)


def as_tuple(answer: Any, schema: pa.Schema, name: str) -> Any:
    """Return a row that a function returned as a tuple, if it is one. name: of the function."""
    if isinstance(answer, tuple):
        return answer
    if isinstance(answer, Mapping):
        if answer.keys() != set(schema.names):
            msg = f"{name} returned {answer!r}; its columns are {', '.join(schema.names)}"
            raise UserFunctionError(msg)
        return tuple(answer[column] for column in schema.names)
    return (answer,) if len(schema) == 1 else answer


def _error(function: object, row: Any, error: Exception) -> UserFunctionError:
    return user_error(f"{function_name(function)} for {row!r}", error)
