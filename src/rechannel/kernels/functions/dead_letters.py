"""Dead letters: rows that a user's function cannot handle leave as rows of their own, and all others go on.

What becomes a dead letter follows from the row and the function alone, so a timestep that runs again has the same ones.
Nothing is done per row until a function fails:

- functions of a row are called row by row anyway; the rows that they fail for leave;
- a function of a batch that fails for a whole batch gets its halves, the halves of those that fail, and so on, until
  single rows fail. It must therefore treat every row by itself, as how rows are cut into batches is not promised.

A function fails for a row when it raises, or when what it returns does not fit the declared columns. What is not the
row's fault still fails the timestep: memory that runs out, a resource that cannot be opened, a function that fails for
a batch without rows.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.resources import WithResource, keeping

OnError = Literal["fail", "dead_letter"]
"""What becomes of a timestep with a row that a function cannot handle: it fails, or the row leaves as a dead letter."""

LETTER = pa.schema([("operator", pa.string()), ("error", pa.string()), ("row", pa.string())])
"""Columns of dead letters: name of the node, what was wrong, the row as the text of a JSON object."""

LONGEST = 4096
"""Characters of an error that are kept."""

Run = Callable[[Any, pa.RecordBatch], list[pa.RecordBatch]]
"""(function of a batch, batch) -> what it makes, in the declared columns. Raises UserFunctionError."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MayDivide:
    """A part of what runs a user's function. on_error: what becomes of a timestep with rows that it fails for.

    `later`: digests of what was made without the field stay what they were.
    """

    on_error: OnError = field(default="fail", metadata={"later": True})


@dataclass(frozen=True, eq=False, kw_only=True)
class Letters:
    """Rows that could not be handled. errors, rows: what was wrong with each, and its text."""

    errors: Sequence[str] | pa.Array
    rows: Sequence[str] | pa.Array

    def __len__(self) -> int:
        return len(self.errors)

    def slice(self, start: int, count: int) -> Letters:
        """Some of them."""
        stop = start + count
        return Letters(errors=self.errors[start:stop], rows=self.rows[start:stop])

    def batch(self, operator: str) -> pa.RecordBatch:
        """Rows with the columns of `LETTER`. operator: name of the node that could not handle them."""
        names = pa.repeat(pa.scalar(operator, pa.string()), len(self))
        columns = [pa.array(each, pa.string()) for each in (self.errors, self.rows)]
        return pa.RecordBatch.from_arrays([names, *columns], schema=LETTER)


@runtime_checkable
class Dividing(Protocol):
    """A function of batches that may part rows which it cannot handle from what it makes of the others."""

    @property
    def on_error(self) -> OnError:
        """Whether it does."""

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """What it makes of a batch, and the rows that it cannot handle (None = it can all)."""


def divides(function: object) -> bool:
    """Whether a function has dead letters."""
    return getattr(function, "on_error", "fail") == "dead_letter"


@dataclass(frozen=True, eq=False, kw_only=True)
class Apart:
    """A function of batches whose dead letters leave apart. Without it, a function of batches has none."""

    function: Callable[[pa.RecordBatch], Any] | WithResource
    on_error: OnError = "dead_letter"

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """As the function itself."""
        return self.function(batch)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Halve what fails until it is single rows.

        A resource is opened anew after the whole batch failed. From then on it is kept (see `kernels.resources`).
        """
        function = self.function
        made: list[pa.RecordBatch] = []
        failed: dict[int, str] = {}
        pending = [(0, batch.num_rows)]
        while pending:
            start, stop = pending.pop()
            try:
                made.extend(run(function, batch.slice(start, stop - start)))
            except UserFunctionError as error:
                need_rows_fault(error, stop - start)
                tried, function = function, keeping(function)
                if stop - start == 1 and function is not tried:
                    # It may be the resource: once more, with another one.
                    pending.append((start, stop))
                    continue
                if stop - start == 1:
                    failed[start] = error_text(error)
                    continue
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
        return made, letters_of(batch, failed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Malformed:
    """Rows without a text in one column, and without that column; the others are dead letters.

    For sources that keep the text of a record which they cannot read: Spark's `columnNameOfCorruptRecord`.
    column: has the text, null where a record could be read. error: what dead letters say. errors: a column that says
    more, which rows lose as well; None = there is none.
    """

    column: str
    error: str = "the record cannot be read"
    errors: str | None = None
    on_error: OnError = "dead_letter"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """All other columns."""
        return pa.schema([f for f in schema if f.name not in (self.column, self.errors)])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows that could be read."""
        rows = batch.filter(batch.column(self.column).is_null())
        return rows.select(self.schema_of(batch.schema).names)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Both kinds of rows."""
        texts = batch.column(self.column)
        if texts.null_count == len(texts):
            return run(lambda rows: rows.select(self.schema_of(rows.schema).names), batch), None
        bad = batch.filter(texts.is_valid())
        said = [self.error] * bad.num_rows
        if self.errors is not None:
            said = [each or self.error for each in bad.column(self.errors).to_pylist()]
        return run(self, batch), Letters(errors=said, rows=bad.column(self.column))


def need_rows_fault(error: UserFunctionError, rows: int) -> None:
    """Raise an error again that is the job's, whatever rows there are."""
    if rows == 0 or not error.blames_rows or isinstance(error.__cause__, MemoryError):
        raise error


def misfits(rows: Sequence[int], made: Callable[[Sequence[int]], object]) -> dict[int, str]:
    """Rows whose answers do not fit the declared columns, and why not: of what does not fit, halves are tried.

    made: makes something of the answers for some rows. Raises UserFunctionError if one does not fit.
    """
    found: dict[int, str] = {}
    pending = [rows]
    while pending:
        some = pending.pop()
        try:
            made(some)
        except UserFunctionError as error:
            if len(some) == 1:
                found[some[0]] = error_text(error)
            else:
                middle = len(some) // 2
                pending += [some[:middle], some[middle:]]
    return found


def error_text(error: BaseException) -> str:
    """What a dead letter says of an error: "ValueError: what it says", without places in code."""
    if isinstance(error, UserFunctionError) and error.raised and error.__cause__:
        error = error.__cause__
    try:
        said = str(error)
    except Exception:
        said = "its text cannot be had"
    text = said if isinstance(error, UserFunctionError) else f"{type(error).__name__}: {said}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def letters_of(rows: pa.RecordBatch, failed: Mapping[int, str]) -> Letters | None:
    """Dead letters of some rows of a batch. failed: what was wrong, by row."""
    if not failed:
        return None
    order = sorted(failed)
    return Letters(
        errors=[failed[row] for row in order], rows=row_texts(rows.take(pa.array(order)))
    )


def row_texts(rows: pa.RecordBatch) -> list[str]:
    """Every row as the text of a JSON object that Spark's `from_json` reads with the columns of the rows.

    Decimals and times are texts, binary is base64; numbers that JSON does not have are "NaN", "Infinity", "-Infinity".
    """
    names = rows.schema.names
    columns = [_plain_values(column) for column in rows.columns]
    if not columns:
        return ["{}"] * rows.num_rows
    cells = zip(*columns, strict=True)
    return [json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) for row in cells]


def _plain_values(column: pa.Array) -> list[Any]:
    try:
        return [_plain(value, column.type) for value in column.to_pylist()]
    except (ValueError, OverflowError):  # values that Python does not have
        return [_plain_scalar(value) for value in column]


def _plain_scalar(value: pa.Scalar) -> Any:
    """As `_plain`, of a value that may have parts which Python does not have: those become the text that Arrow has."""
    kind = value.type
    try:
        return _plain(value.as_py(), kind)
    except (ValueError, OverflowError):
        pass
    if pa.types.is_struct(kind):
        return {f.name: _plain_scalar(value[i]) for i, f in enumerate(kind.fields)}
    if pa.types.is_map(kind):
        pairs = ((_plain_scalar(each[0]), _plain_scalar(each[1])) for each in value.values)
        return {str(name): held for name, held in pairs}
    if pa.types.is_nested(kind):
        return [_plain_scalar(each) for each in value.values]
    return _text(value)


def _text(value: pa.Scalar) -> str:
    """A value as Arrow writes it, with signs in place of bytes that are no text."""
    buffer = getattr(value, "as_buffer", None)
    if buffer is not None:
        return bytes(buffer()).decode(errors="replace")
    try:
        return str(value.cast(pa.string()).as_py())
    except (pa.ArrowException, ValueError, OverflowError):
        return f"a value of type {value.type} that cannot be told"


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if pa.types.is_struct(kind):
        return {f.name: _plain(value[f.name], f.type) for f in kind.fields}
    if pa.types.is_map(kind):
        return {str(_plain(k, kind.key_type)): _plain(v, kind.item_type) for k, v in value}
    if pa.types.is_nested(kind):
        return [_plain(each, kind.value_type) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
