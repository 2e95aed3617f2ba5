"""Dead letters: rows that a user's function cannot handle leave the operator as rows of their own; all others continue.

Whether a row becomes a dead letter follows from the row and the function alone, so a retried timestep has the same dead
letters. There is no work per row until a function fails:

- a function of one row is called row by row anyway; the rows that it fails for leave;
- a function of a batch that fails for a whole batch is called with its halves, with the halves of those that fail, and
  so on down to single rows. It must therefore treat each row by itself: how rows are cut into batches is not defined.

A function fails for a row if it raises, or if what it returns does not fit the declared columns. An error that is not
the row's fault still fails the timestep: lack of memory, a resource that cannot be opened, a function that fails for a
batch without rows.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.paths import path_of_uri
from rechannel.kernels.functions.resources import WithResource, keeping
from rechannel.model.bad_rows import FILE_MARK, AtMost

OnError = Literal["fail", "dead_letter"] | AtMost
"""What happens when a function cannot handle a row: the timestep fails, or the row leaves as a dead letter.

A bound says how many may leave.
"""

LETTER = pa.schema([("operator", pa.string()), ("error", pa.string()), ("row", pa.string())])
"""Columns of dead letters: name of the node, the error, the row as the text of a JSON object."""

WHOLE_LETTER = pa.schema(
    [
        *LETTER,
        ("at_timestep", pa.int64()),
        ("source", pa.string()),
        ("offset", pa.string()),
    ]
)
"""Columns of dead letters with where they are from: the timestep, the name of the source, and the place of the record
there as the text of a JSON object; null if it is not known. File sinks call a directory `timestep`, so the column
is called `at_timestep`.
"""

PLACE = ("topic", "partition", "offset")
"""Columns that say where a record is from, as sources with offsets have them."""

LONGEST = 4096
"""Most characters of an error that are kept."""

Run = Callable[[Any, pa.RecordBatch], list[pa.RecordBatch]]
"""(function of a batch, batch) -> its result in the declared columns. Raises UserFunctionError."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MayDivide:
    """Base of what runs a user's function."""

    # `later`: digests from before the field existed stay valid.
    on_error: OnError = field(default="fail", metadata={"later": True})
    """What happens to a timestep with rows that the function fails for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Letters:
    """Rows that could not be handled."""

    errors: Sequence[str] | pa.Array
    """The error of each row."""
    rows: Sequence[str] | pa.Array
    """The text of each row, see `row_texts`."""
    offsets: Sequence[str | None] | None = None
    """Where the source has each row, see `offsets_of`; None = of none is it known."""

    def __len__(self) -> int:
        return len(self.errors)

    def slice(self, start: int, count: int) -> Letters:
        """Return a range of them."""
        stop = start + count
        offsets = None if self.offsets is None else self.offsets[start:stop]
        return Letters(errors=self.errors[start:stop], rows=self.rows[start:stop], offsets=offsets)

    def batch(self, operator: str, timestep: int, source: str | None = None) -> pa.RecordBatch:
        """Return them with the columns of `WHOLE_LETTER`.

        operator: name of the node that could not handle them. source: that the rows are from, if there is one only.
        """
        count = len(self)
        offsets = [None] * count if self.offsets is None else self.offsets
        columns = [
            pa.repeat(pa.scalar(operator, pa.string()), count),
            *(pa.array(each, pa.string()) for each in (self.errors, self.rows)),
            pa.repeat(pa.scalar(timestep, pa.int64()), count),
            pa.repeat(pa.scalar(source, pa.string()), count),
            pa.array(offsets, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=WHOLE_LETTER)


@runtime_checkable
class Dividing(Protocol):
    """A function of batches that can separate the rows it cannot handle from its result for the others."""

    @property
    def on_error(self) -> OnError:
        """Whether it does so."""

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Return the result for a batch, and the rows that could not be handled; None means that all were handled."""


def divides(function: object) -> bool:
    """Return whether a function has dead letters."""
    on_error: object = getattr(function, "on_error", "fail")
    return on_error == "dead_letter" or isinstance(on_error, AtMost)


@dataclass(frozen=True, eq=False, kw_only=True)
class Apart:
    """Gives a function of batches dead letters."""

    function: Callable[[pa.RecordBatch], Any] | WithResource
    on_error: OnError = "dead_letter"

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Call the function itself."""
        return self.function(batch)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Halve batches that fail, down to single rows.

        A resource is reopened after the whole batch failed. From then on it is kept (see `functions.resources`).
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
                    # The resource may be at fault: try once more with a new one.
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
    """Turns records that a source could not read into dead letters, and drops the column with their text.

    For sources that keep the text of such a record: Spark's `columnNameOfCorruptRecord`.
    """

    column: str
    """Column with the record's file and text, see `FILE_MARK`; null for records that could be read."""
    error: str = "the record cannot be read"
    """Error of the dead letters."""
    errors: str | None = None
    """Column with a more precise error, which is dropped as well; None if there is no such column."""
    on_error: OnError = "dead_letter"

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return all other columns."""
        return pa.schema([f for f in schema if f.name not in (self.column, self.errors)])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that could be read."""
        rows = batch.filter(batch.column(self.column).is_null())
        return rows.select(self.schema_of(batch.schema).names)

    def divided(
        self, batch: pa.RecordBatch, run: Run
    ) -> tuple[list[pa.RecordBatch], Letters | None]:
        """Return the rows that could be read, and the others as dead letters."""
        texts = batch.column(self.column)
        if texts.null_count == len(texts):
            return run(lambda rows: rows.select(self.schema_of(rows.schema).names), batch), None
        bad = batch.filter(texts.is_valid())
        errors = [self.error] * bad.num_rows
        if self.errors is not None:
            errors = [each or self.error for each in bad.column(self.errors).to_pylist()]
        records, offsets = files_apart(bad.column(self.column))
        return run(self, batch), Letters(errors=errors, rows=records, offsets=offsets)


def files_apart(texts: pa.Array) -> tuple[pa.Array, list[str | None]]:
    """Separate the texts of records from the files they are from (`FILE_MARK`).

    Returns the texts, and where each is from as the text of a JSON object; None if that is not known.
    """
    parts = pc.split_pattern(texts, FILE_MARK, max_splits=2)
    files = pc.list_element(parts, 1).dictionary_encode()
    places = [
        json.dumps({"file": path_of_uri(file)}, ensure_ascii=False) if file else None
        for file in files.dictionary.to_pylist()
    ]
    return pc.list_element(parts, 2), pa.array(places, pa.string()).take(files.indices).to_pylist()


def need_rows_fault(error: UserFunctionError, rows: int) -> None:
    """Raise the error again if no row is to blame for it. rows: number of rows in the batch."""
    if rows == 0 or not error.blames_rows or isinstance(error.__cause__, MemoryError):
        raise error


def misfits(rows: Sequence[int], made: Callable[[Sequence[int]], object]) -> dict[int, str]:
    """Find the rows whose results do not fit the declared columns, by halving. Returns the error by row.

    made: builds columns from the results for some rows. Raises UserFunctionError if one does not fit.
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
    """Return the text of an error in a dead letter: type and message, without a traceback."""
    if isinstance(error, UserFunctionError) and error.raised and error.__cause__:
        error = error.__cause__
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be read)"
    text = message if isinstance(error, UserFunctionError) else f"{type(error).__name__}: {message}"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def letters_of(rows: pa.RecordBatch, failed: Mapping[int, str]) -> Letters | None:
    """Return the dead letters of a batch; None if there are none. failed: the error by row."""
    if not failed:
        return None
    order = sorted(failed)
    bad = rows.take(pa.array(order))
    errors = [failed[row] for row in order]
    return Letters(errors=errors, rows=row_texts(bad), offsets=offsets_of(bad))


def offsets_of(rows: pa.RecordBatch) -> list[str] | None:
    """Return where the source has each row, as the text of a JSON object; None if the rows do not say it.

    They say it in the columns of `PLACE`.
    """
    if not set(PLACE) <= set(rows.schema.names):
        return None
    return row_texts(rows.select(PLACE))


def row_texts(rows: pa.RecordBatch) -> list[str]:
    """Return each row as the text of a JSON object that Spark's `from_json` reads with the schema of the rows.

    Decimals and times are strings, binary is base64; non-finite numbers are "NaN", "Infinity" and "-Infinity".
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
    except (ValueError, OverflowError):  # values that Python cannot represent
        return [_plain_scalar(value) for value in column]


def _plain_scalar(value: pa.Scalar) -> Any:
    """Do what `_plain` does; parts that Python cannot represent become the text that Arrow gives them."""
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
    """Return a value as Arrow writes it, with replacement characters for invalid UTF-8."""
    buffer = getattr(value, "as_buffer", None)
    if buffer is not None:
        return bytes(buffer()).decode(errors="replace")
    try:
        return str(value.cast(pa.string()).as_py())
    except (pa.ArrowException, ValueError, OverflowError):
        return f"a value of type {value.type} that cannot be written as text"


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value that JSON can hold."""
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
