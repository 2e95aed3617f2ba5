"""Expectations: what must hold for each row, checked a batch at a time.

An expectation gives one boolean per row. Rows that do not meet it are counted, and stay, leave as dead letters, or fail
the timestep. As long as all rows do, nothing is done per row. The built-in expectations let nulls pass, except for
`NotNull`; a function of the user decides itself, and null means that a row does not meet it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError, UserFunctionError
from rechannel.kernels.functions.dead_letters import (
    Letters,
    OnError,
    error_text,
    letters_of,
    need_rows_fault,
    row_texts,
)
from rechannel.kernels.functions.masks import MaskFilter
from rechannel.kernels.functions.select import need
from rechannel.kernels.functions.user_errors import function_name
from rechannel.model.bad_rows import AtMost
from rechannel.model.ddl import type_name

Action = Literal["count", "drop", "fail"]
"""What happens to rows that do not meet an expectation; they are counted in any case."""


class Expectation(Protocol):
    """What must hold for a row."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it needs."""

    def met(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether it holds, without nulls."""

    def describe(self) -> str:
        """Return what must hold, in words."""


@dataclass(frozen=True, kw_only=True)
class NotNull:
    """Columns are not null."""

    columns: tuple[str, ...]

    def met(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Expectation`."""
        return reduce(pc.and_, (batch.column(name).is_valid() for name in self.columns))

    def describe(self) -> str:
        """See `Expectation`."""
        return f"{' and '.join(self.columns)} is not null"


@dataclass(frozen=True, kw_only=True)
class Between:
    """A column lies in a range, ends included. least, most: None = it has no such end."""

    column: str
    least: Any = None
    most: Any = None

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Expectation`."""
        return (self.column,)

    def met(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Expectation`."""
        values = batch.column(self.column)
        ends = ((pc.greater_equal, self.least), (pc.less_equal, self.most))
        masks = [
            compare(values, _like(end, values.type)) for compare, end in ends if end is not None
        ]
        return reduce(pc.and_, masks).fill_null(True)

    def describe(self) -> str:
        """See `Expectation`."""
        if self.most is None:
            return f"{self.column} is at least {self.least!r}"
        if self.least is None:
            return f"{self.column} is at most {self.most!r}"
        return f"{self.column} is between {self.least!r} and {self.most!r}"


@dataclass(frozen=True, kw_only=True)
class InSet:
    """A column has one of some values."""

    column: str
    values: tuple[Any, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Expectation`."""
        return (self.column,)

    def met(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Expectation`."""
        values = batch.column(self.column)
        held = [value for value in self.values if _is_held(value, values.type)]
        found = pc.is_in(values, value_set=pa.array(held, values.type))
        return pc.or_(found, values.is_null())

    def describe(self) -> str:
        """See `Expectation`."""
        shown = ", ".join(map(repr, self.values[:5]))
        more = f", ... ({len(self.values)} values)" if len(self.values) > 5 else ""
        return f"{self.column} is one of {shown}{more}"


@dataclass(frozen=True, kw_only=True)
class MatchesRegex:
    """A pattern of RE2 is found in a column of texts."""

    column: str
    pattern: str

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Expectation`."""
        return (self.column,)

    def met(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Expectation`."""
        found = pc.match_substring_regex(batch.column(self.column), self.pattern)
        return found.fill_null(True)

    def describe(self) -> str:
        """See `Expectation`."""
        return f"{self.column} matches {self.pattern!r}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Satisfies:
    """A function of the user is true for a row."""

    function: Callable[[pa.RecordBatch], Any]
    """(RecordBatch) -> one boolean per row, as an Arrow or numpy array."""
    columns: tuple[str, ...] = ()

    def met(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """See `Expectation`. Raises UserFunctionError."""
        return MaskFilter(function=self.function).mask(batch).fill_null(False)

    def describe(self) -> str:
        """See `Expectation`."""
        return f"{function_name(self.function)} is true"


@dataclass(frozen=True, eq=False, kw_only=True)
class Verdicts:
    """What is made of a batch."""

    rows: pa.RecordBatch
    """That stay."""
    bad: Letters | None
    """All that do not meet an expectation, whether they stay or not; None = all meet all."""
    failed: Mapping[str, int]
    """By expectation, how many rows do not meet it."""
    leave: bool
    """Whether bad rows leave as dead letters."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Expect:
    """Checks expectations on each row."""

    expectations: tuple[tuple[str, Expectation], ...]
    """With their names."""
    action: Action
    bound: AtMost | None = None
    """How many rows may be bad; None = any number."""

    @property
    def on_error(self) -> OnError:
        """Whether it has dead letters."""
        return "dead_letter" if self.action == "drop" else "fail"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema unchanged. Raises DataflowError, UnknownColumnError if an expectation does not fit it."""
        none = schema.empty_table().to_batches() or [_no_rows(schema)]
        for name, expectation in self.expectations:
            need(expectation.columns, schema)
            if isinstance(expectation, Satisfies):
                continue
            try:
                expectation.met(none[0])
            except (pa.ArrowException, TypeError, ValueError) as error:
                kinds = ", ".join(
                    f"{each} is {type_name(schema.field(each).type)}"
                    for each in expectation.columns
                )
                msg = f"expectation {name!r} ({expectation.describe()}) cannot be checked: {kinds} ({error})"
                raise DataflowError(msg) from error
        return schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that stay."""
        return self.judged(batch).rows

    def judged(self, batch: pa.RecordBatch) -> Verdicts:
        """Judge the rows of a batch. Raises UserFunctionError if one is bad and must not be."""
        met, failing = self._met(batch)
        failed = {name: mask.false_count for name, mask in met.items()}
        whole = reduce(pc.and_, met.values())
        if not any(failed.values()):
            return Verdicts(rows=batch, bad=None, failed=failed, leave=False)
        errors = self._errors(met, whole, failing)
        if self.action == "fail":
            raise self._complaint(batch, errors, failed)
        leave = self.action == "drop"
        rows = batch.filter(whole) if leave else batch
        return Verdicts(rows=rows, bad=letters_of(batch, errors), failed=failed, leave=leave)

    def _met(
        self, batch: pa.RecordBatch
    ) -> tuple[dict[str, pa.BooleanArray], dict[str, dict[int, str]]]:
        """Return for each expectation which rows meet it, and what its function raised for a row."""
        met, failing = dict[str, pa.BooleanArray](), dict[str, dict[int, str]]()
        for name, expectation in self.expectations:
            if isinstance(expectation, Satisfies) and self.action != "fail":
                met[name], failing[name] = _tried(expectation, batch)
            else:
                met[name], failing[name] = expectation.met(batch), {}
        return met, failing

    def _errors(
        self,
        met: Mapping[str, pa.BooleanArray],
        whole: pa.BooleanArray,
        failing: Mapping[str, Mapping[int, str]],
    ) -> dict[int, str]:
        """Return what is wrong with each bad row."""
        bad = pc.indices_nonzero(pc.invert(whole))
        errors: dict[int, list[str]] = {row: [] for row in bad.to_pylist()}
        for name, expectation in self.expectations:
            for row in pc.indices_nonzero(pc.invert(met[name])).to_pylist():
                raised = failing[name].get(row)
                why = f" ({raised})" if raised else ""
                errors[row].append(
                    f"expectation {name!r} is not met: {expectation.describe()}{why}"
                )
        return {row: "; ".join(said) for row, said in errors.items()}

    def _complaint(
        self, batch: pa.RecordBatch, errors: Mapping[int, str], failed: Mapping[str, int]
    ) -> UserFunctionError:
        first = min(errors)
        (shown,) = row_texts(batch.slice(first, 1))
        counts = ", ".join(f"{name}: {rows}" for name, rows in failed.items() if rows)
        return UserFunctionError(
            f"{len(errors)} of {batch.num_rows} rows do not meet the expectations ({counts}). The first of them is"
            f" {shown[:500]}: {errors[first]}. Correct the data and have the timestep planned anew with"
            " start(replan=True), or let such rows leave with expect_or_drop(...)"
        )


def _tried(expectation: Satisfies, batch: pa.RecordBatch) -> tuple[pa.BooleanArray, dict[int, str]]:
    """Return which rows meet an expectation, and the errors of those that its function fails for, by halving."""
    met: list[pa.BooleanArray] = []
    errors: dict[int, str] = {}
    pending = [(0, batch.num_rows)]
    while pending:
        start, stop = pending.pop()
        try:
            met.append(expectation.met(batch.slice(start, stop - start)))
        except UserFunctionError as error:
            need_rows_fault(error, stop - start)
            if stop - start == 1:
                errors[start] = error_text(error)
                met.append(pa.array([False]))
                continue
            middle = (start + stop) // 2
            pending += [(middle, stop), (start, middle)]
    return pa.concat_arrays(met), errors


def _like(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a value as one of a column, if the column can hold it."""
    try:
        return pa.scalar(value, kind) if _is_held(value, kind) else pa.scalar(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.scalar(value)


def _is_held(value: Any, kind: pa.DataType) -> bool:
    """Return whether a column of whole numbers or days can hold a value: Arrow would cut off fractions and hours."""
    if not (pa.types.is_integer(kind) or pa.types.is_date(kind)):
        return True
    if isinstance(value, dt.datetime):
        return False
    try:
        return bool(pa.scalar(value, kind).as_py() == value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return not isinstance(value, float)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
