"""Convert Arrow columns to the Python values that a user's function of rows receives, and back.

Columns are converted as a whole and on first access; per key, a list is sliced and nothing is built. If Python cannot
represent a value of a column (a time in the year 14645, text that is not UTF-8), the column is converted by halves, so
that only rows with such values are affected.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from functools import cache, partial
from itertools import repeat
from typing import Any, overload

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.model.ddl import type_name
from rechannel.model.decoded import decoded


@cache
def row_type(names: tuple[str, ...], title: str = "Row") -> Any:
    """Return the NamedTuple class of these columns; a name that is not a Python identifier becomes `_i`."""
    return namedtuple(title, names, rename=True)


@cache
def row_maker(names: tuple[str, ...], title: str = "Row") -> Callable[[Iterable[Any]], Any]:
    """Return what makes such a NamedTuple of values, one for each name: as `_make`, but without a check, in C."""
    return partial(tuple.__new__, row_type(names, title))


Unheld = dict[int, str]
"""Rows with a value that Python cannot represent, and why it cannot."""

_UNHELD = (ValueError, OverflowError)  # UnicodeDecodeError and pa.ArrowInvalid are ValueErrors


def python_values(column: pa.Array, name: str = "", unheld: Unheld | None = None) -> list[Any]:
    """Return the values as Python types; null is None, an instant is a datetime in UTC.

    name: of the column, for messages. unheld: receives the rows with values that Python cannot represent, which are
    returned as None. Without it, such a value raises UserFunctionError.
    """
    try:
        return _converted(column)
    except _UNHELD:
        values, wrong = _by_halves(column)
    where = f"column {name!r}" if name else "a column"
    for row, why in wrong.items():
        what = f"{where} has a value that Python cannot represent ({why})"
        if unheld is None:
            raise UserFunctionError(what)
        unheld.setdefault(row, what)
    return values


def _by_halves(column: pa.Array) -> tuple[list[Any], Unheld]:
    """Return values, None where Python cannot represent them, and why it cannot."""
    values: list[Any] = []
    wrong: Unheld = {}
    pending = [(0, len(column))]
    while pending:
        start, stop = pending.pop()
        try:
            values += _converted(column.slice(start, stop - start))
        except _UNHELD as error:
            if stop - start == 1:
                values.append(None)
                wrong[start] = f"{type(error).__name__}: {error}"
                continue
            middle = (start + stop) // 2
            pending += [(middle, stop), (start, middle)]
    return values, wrong


def _converted(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return _numbers(column)
    if pa.types.is_timestamp(kind) and kind.unit != "ns" and kind.tz == "UTC":
        naive = column.cast(pa.timestamp(kind.unit))
        return [v if v is None else v.replace(tzinfo=UTC) for v in naive.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _numbers(column: pa.Array) -> list[Any]:
    if column.null_count == 0:
        plain: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return plain
    nothing = pa.scalar(False if pa.types.is_boolean(column.type) else 0).cast(column.type)
    values: list[Any] = column.fill_null(nothing).to_numpy(zero_copy_only=False).tolist()
    for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
        values[row] = None
    return values


def python_keys(
    columns: Columns, names: Sequence[str], rows: int, unheld: Unheld | None = None
) -> list[Any]:
    """Return one Python value per key: a scalar for one key column, else a tuple. unheld: see `python_values`."""
    values = [python_values(c, name, unheld) for c, name in zip(columns, names, strict=True)]
    if len(values) == 1:
        return values[0]
    return list(zip(*values, strict=True)) if values else [()] * rows


def python_rows(
    columns: Columns,
    names: tuple[str, ...],
    rows: int,
    title: str = "Row",
    unheld: Unheld | None = None,
) -> list[Any]:
    """Return each row as a NamedTuple. unheld: see `python_values`."""
    values = [python_values(c, name, unheld) for c, name in zip(columns, names, strict=True)]
    return list(map(row_maker(names, title), _cells(values, rows)))


def _cells(columns: Sequence[list[Any]], rows: int) -> Iterator[tuple[Any, ...]]:
    """Zip columns into rows; without columns, yield empty rows."""
    return zip(*columns, strict=True) if columns else repeat((), rows)


class _Gapped(list[Any]):
    """Values of a column; reading one that Python cannot represent raises UnheldError."""

    def __init__(self, values: list[Any], unheld: Unheld) -> None:
        super().__init__(values)
        self._unheld = unheld
        self._gaps = np.array(sorted(unheld), dtype=np.int64)

    def __getitem__(self, which: Any) -> Any:
        """Return a value, or those of a slice without a step."""
        start, stop = (which.start, which.stop) if isinstance(which, slice) else (which, which + 1)
        first, last = np.searchsorted(self._gaps, [start, stop])
        if first < last:
            raise UnheldError(self._unheld[int(self._gaps[first])])
        return super().__getitem__(which)


class UnheldError(ValueError):
    """A function read a value that Python cannot represent."""


class LazyColumns(dict[str, list[Any]]):
    """Columns by name, each converted to a list of Python values on first access.

    A value that Python cannot represent raises when a function reads its row, and only then.
    """

    __slots__ = ("arrays", "names", "row")

    def __init__(self, arrays: Columns, names: tuple[str, ...]) -> None:
        self.arrays = arrays
        self.names = names
        self.row = row_maker(names)

    def __missing__(self, name: str) -> list[Any]:
        if name not in self.names:
            msg = f"rows have no column {name!r}; they have {', '.join(self.names) or 'none'}"
            raise KeyError(msg)
        unheld: Unheld = {}
        values = python_values(self.arrays[self.names.index(name)], name, unheld)
        self[name] = _Gapped(values, unheld) if unheld else values
        return self[name]

    def all(self) -> list[list[Any]]:
        """Return all columns, in order."""
        return [self[name] for name in self.names]

    def at(self, row: int) -> Any:
        """Return one row as a NamedTuple."""
        return self.row([column[row] for column in self.all()])


class Rows(Sequence[Any]):
    """The rows of one key in one timestep, in stream order.

    `rows["price"]` is the list of one column's values (the fastest access), `rows[0]` a NamedTuple, `rows[1:]` the
    rows without the first. `len`, iteration and `reversed` work as for a list.
    """

    __slots__ = ("_columns", "_start", "_stop")

    def __init__(self, columns: LazyColumns, start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, which: str) -> list[Any]: ...

    @overload
    def __getitem__(self, which: int) -> Any: ...

    @overload
    def __getitem__(self, which: slice) -> Rows: ...

    def __getitem__(self, which: str | int | slice) -> Any:
        if type(which) is str:
            return self._columns[which][self._start : self._stop]
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step != 1:
                msg = "rows can be sliced with step 1 only; take a column and slice that instead"
                raise ValueError(msg)
            return Rows(self._columns, self._start + start, self._start + max(start, stop))
        row = int(which)
        row += len(self) if row < 0 else 0
        if not 0 <= row < len(self):
            msg = f"row {which} of {len(self)}"
            raise IndexError(msg)
        return self._columns.at(self._start + row)

    def __iter__(self) -> Iterator[Any]:
        piece = slice(self._start, self._stop)
        cells = _cells([column[piece] for column in self._columns.all()], len(self))
        return map(self._columns.row, cells)

    def __repr__(self) -> str:
        return f"Rows({list(self)!r})"


Label = Callable[[int], str]
"""How messages name the value at a position, for example "the state that f returned for key 'AA'"."""


def columns_of(
    results: Sequence[Sequence[Any]], fields: Sequence[pa.Field], what: Label
) -> Columns:
    """Return tuples as columns. Every tuple has one value per field (see `check_tuples`)."""
    # Much faster than to zip thousands of short tuples.
    columns = [[row[place] for row in results] for place in range(len(fields))]
    return [column_of(values, field, what) for values, field in zip(columns, fields, strict=True)]


def column_of(values: Sequence[Any], field: pa.Field, what: Label) -> pa.Array:
    """Return Python values as a column.

    Raises UserFunctionError naming the field and the first value that does not fit.
    """
    if _has_integers(field.type):
        _refuse_fractions(values, field, what)
    try:
        return pa.array(values, type=field.type)
    except _REFUSALS as error:
        row = _first_unfit(values, field)
        raise _unfit(values[row], field, what(row)) from error


_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _refuse_fractions(values: Sequence[Any], field: pa.Field, what: Label) -> None:
    """Raise UserFunctionError for fractions, which Arrow would silently truncate, at any level."""
    if _has_fraction(values, field.type):
        row = next(i for i, value in enumerate(values) if _has_fraction([value], field.type))
        raise _unfit(values[row], field, what(row))


_FRACTIONS = (float, np.floating, Decimal)


@cache
def _has_integers(kind: pa.DataType) -> bool:
    """Whether a type has integers at any level."""
    if pa.types.is_integer(kind):
        return True
    return any(_has_integers(kind.field(i).type) for i in range(kind.num_fields))


def _has_fraction(values: Iterable[Any], kind: pa.DataType) -> bool:
    """Whether one of some values of a type has a fraction where the type has an integer."""
    if not _has_integers(kind):
        return False
    if pa.types.is_integer(kind):
        return any(issubclass(each, _FRACTIONS) for each in set(map(type, values)))
    some = [value for value in values if value is not None]
    if pa.types.is_struct(kind):
        fields = ((i, kind.field(i)) for i in range(kind.num_fields))
        return any(
            _has_fraction([_member(value, i, field.name) for value in some], field.type)
            for i, field in fields
        )
    if pa.types.is_map(kind):
        pairs = [
            pair for value in some for pair in (value.items() if _is_mapping(value) else value)
        ]
        return any(
            _has_fraction([pair[side] for pair in pairs], part)
            for side, part in enumerate((kind.key_type, kind.item_type))
        )
    return _has_fraction([each for value in some for each in _elements(value)], kind.value_type)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _member(value: Any, place: int, name: str) -> Any:
    """Return a member of a struct, given as a mapping or as a tuple; None if it has none there."""
    if _is_mapping(value):
        return value.get(name)
    return value[place] if isinstance(value, tuple) and place < len(value) else None


def _elements(value: Any) -> Iterable[Any]:
    """Return what a list has; nothing for what is no list, which Arrow refuses."""
    return value if isinstance(value, Iterable) else ()


def _first_unfit(values: Sequence[Any], field: pa.Field) -> int:
    """Find the first value that does not fit, by bisection: converting a column is fast, a single value slow."""
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fit(values[start:middle], field):
            start = middle
        else:
            stop = middle
    return start


def _fit(values: Sequence[Any], field: pa.Field) -> bool:
    try:
        pa.array(values, type=field.type)
    except _REFUSALS:
        return False
    return True


def _unfit(value: object, field: pa.Field, what: str) -> UserFunctionError:
    return UserFunctionError(
        f"{what}: field {field.name!r} is declared {type_name(field.type)} and got "
        f"{value!r} ({type(value).__name__}); return another value or declare another type"
    )


def check_tuples(results: Sequence[Any], fields: Sequence[pa.Field], what: Label) -> None:
    """Raise UserFunctionError unless every result is a tuple (or list) with one value per field."""
    width = len(fields)
    tuples = all(issubclass(kind, tuple | list) for kind in set(map(type, results)))
    if tuples and set(map(len, results)) <= {width}:
        return
    row = next(
        i for i, r in enumerate(results) if not isinstance(r, tuple | list) or len(r) != width
    )
    wrong, names = results[row], ", ".join(field.name for field in fields)
    got = f"{len(wrong)} values" if isinstance(wrong, tuple | list) else f"a {type(wrong).__name__}"
    msg = f"{what(row)}: expected a tuple of {width} values ({names}), got {got}: {wrong!r}"
    raise UserFunctionError(msg)


def fitted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column if every value fits. Raises ArrowException.

    Arrow would also convert between numbers and text; this function refuses that.
    """
    if column.type == kind:
        return column
    if _is_text(column.type) != _is_text(kind) and not pa.types.is_null(column.type):
        msg = f"{type_name(column.type)} cannot be converted to {type_name(kind)}"
        raise pa.ArrowInvalid(msg)
    return decoded(column).cast(kind)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return kind in _TEXT


_TEXT = (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
)
