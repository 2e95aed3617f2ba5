"""All changed keys of a task as one frame: what a vectorised `track` sees and may answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.functions.python_rows import fitted
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.ddl import type_name
from rechannel.operators.aggregate.functions import integers

if TYPE_CHECKING:
    import polars as pl

KEY = "_key"
"""Name of the column that tells the key number of a row."""

DROP = "_drop"
"""Name of the optional boolean column of an answer: which keys end here."""

FrameAnswer: TypeAlias = "pa.RecordBatch | pa.Table | pl.DataFrame | Mapping[str, Any]"
"""State columns by name, row i for key i, and optionally `_drop`."""

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class RowsFrame:
    """Keys, and the rows that each of them received.

    The helpers give one numpy value per key. Nulls are skipped, as SQL does.
    """

    keys: pa.RecordBatch
    rows: pa.RecordBatch
    groups: Groups

    @property
    def starts(self) -> IntArray:
        """First row of each key. Shape (keys,)."""
        return self.groups.starts

    @property
    def sizes(self) -> IntArray:
        """Number of rows of each key. Shape (keys,)."""
        return self.groups.sizes

    @property
    def ids(self) -> IntArray:
        """Key number of each row. Shape (rows,)."""
        return self.groups.ids

    def __len__(self) -> int:
        return self.groups.count

    def count(self, column: str | None = None) -> IntArray:
        """Number of rows of each key, or of those whose value is not null."""
        if column is None:
            return self.sizes
        return self._reduce(np.add, _valid(_column(self.rows, column)).astype(np.int64))

    def sum(self, column: str) -> AnyArray:
        """Sum of each key's values (int64 or float64); 0 where all are null. Raises OverflowError."""
        values = _number(self.rows, column)
        if pa.types.is_floating(values.type):
            return self._reduce(np.add, _filled(values, 0).astype(np.float64, copy=False))
        try:
            whole = _filled(values, 0)
            if whole.dtype == np.uint64 and (whole > np.uint64(np.iinfo(np.int64).max)).any():
                raise OverflowError
            wide = whole.astype(np.int64, copy=False)
            return integers.total(wide, self.groups) if len(wide) else np.zeros(len(self), np.int64)
        except OverflowError as error:
            msg = f"the sum of column {column!r} does not fit 64 bits: cast it to a decimal or a double"
            raise OverflowError(msg) from error

    def min(self, column: str, default: Any = None) -> AnyArray:
        """Smallest number of each key (NaN counts as largest); the default where all are null."""
        return self._extreme(np.fmin, column, default, highest=True)

    def max(self, column: str, default: Any = None) -> AnyArray:
        """Largest number of each key; the default where all are null."""
        return self._extreme(np.maximum, column, default, highest=False)

    def first(self, column: str, default: Any = None) -> AnyArray:
        """Value of each key's first row, of any type; the default where it is null."""
        return self._rows_at(column, self.starts, default)

    def last(self, column: str, default: Any = None) -> AnyArray:
        """Value of each key's last row, of any type; the default where it is null."""
        return self._rows_at(column, self.groups.ends - 1, default)

    def to_polars(self) -> pl.DataFrame:
        """All rows with their key columns and `_key`, the key number, by which to group.

        `frame.to_polars().group_by("_key", maintain_order=True)` gives one group per key, in the
        order of the keys.
        """
        return as_polars(self.keys, self.rows, self.ids)

    def _rows_at(self, column: str, places: IntArray, default: Any) -> AnyArray:
        values = _column(self.rows, column)
        if not len(values):
            return self._without_rows(values.type, default)
        return as_array(values.take(pa.array(places)), default)

    def _without_rows(self, kind: pa.DataType, default: Any) -> AnyArray:
        return as_array(pa.nulls(len(self), kind), default)

    def _reduce(self, how: np.ufunc, values: AnyArray) -> AnyArray:
        if not len(values):  # keys without rows, whose timers went off
            return np.zeros(len(self), dtype=values.dtype)
        return np.asarray(how.reduceat(values, self.starts)) if len(self) else values[:0]

    def _extreme(self, how: np.ufunc, column: str, default: Any, *, highest: bool) -> AnyArray:
        """The value that wins; a null counts as the highest or lowest there is, and so loses."""
        values = _number(self.rows, column)
        if not len(values):
            return self._without_rows(values.type, default)
        if values.null_count == 0:
            return self._reduce(how, values.to_numpy(zero_copy_only=False))
        best = self._reduce(how, _filled(values, _limit(values.type, highest=highest)))
        nothing = self.count(column) == 0
        return as_array(pa.array(best, type=values.type, mask=nothing), default)


@dataclass(frozen=True, eq=False, kw_only=True)
class KeyedFrame(RowsFrame):
    """The keys of a task that received rows in a timestep.

    keys: key columns, one row per key.
    state: state columns as they were, one row per key; null where the key is new.
    found: shape (keys,), whether the key had state.
    rows: value columns of all rows, sorted by key and, within a key, by stream order.
    starts, sizes: first row and number of rows of each key. Shape (keys,).
    ids: key number of each row. Shape (rows,).

    The helpers give one numpy value per key. Nulls are skipped, as SQL does.
    """

    state: pa.RecordBatch
    found: Mask

    def __repr__(self) -> str:
        names = ", ".join(self.rows.schema.names)
        return f"<KeyedFrame: {self.keys.num_rows} keys, {self.rows.num_rows} rows of {names}>"

    @classmethod
    def of(
        cls,
        *,
        keys: pa.RecordBatch,
        state: pa.RecordBatch,
        found: Mask,
        rows: pa.RecordBatch,
        groups: Groups,
    ) -> KeyedFrame:
        """A frame in which state that does not count is null, whatever was stored there."""
        if not found.all():
            known = pa.array(np.arange(len(found)), mask=~found)
            state = state.take(known)
        return cls(keys=keys, state=state, found=found, rows=rows, groups=groups)

    def previous(self, column: str, default: Any = None) -> AnyArray:
        """A state column as it was, with the default where the key is new. Shape (keys,)."""
        return as_array(_column(self.state, column), default)


def as_polars(keys: pa.RecordBatch, rows: pa.RecordBatch, ids: IntArray) -> pl.DataFrame:
    """Rows with their key columns and `_key`, the key number. ids: it, of each row."""
    import polars as pl

    of = pa.array(ids)
    columns = [*(column.take(of) for column in keys.columns), *rows.columns, of]
    names = [*keys.schema.names, *rows.schema.names, KEY]
    frame = pl.from_arrow(pa.Table.from_arrays(columns, names=names))
    if not isinstance(frame, pl.DataFrame):
        msg = f"polars.from_arrow returned {type(frame).__name__}, expected DataFrame"
        raise TypeError(msg)
    return frame


def read_answer(
    answer: FrameAnswer, fields: pa.Schema, count: int, name: str
) -> tuple[Columns, Mask]:
    """State columns in the declared types, and which keys end here. Raises UserFunctionError."""
    columns = named_columns(answer, name)
    missing = [field.name for field in fields if field.name not in columns]
    unknown = [column for column in columns if column not in fields.names and column != DROP]
    if missing or unknown:
        msg = (
            f"{name} must answer the state columns {', '.join(fields.names)}"
            + (f"; {missing[0]!r} is missing" if missing else "")
            + (f"; {unknown[0]!r} is not one of them" if unknown else "")
        )
        raise UserFunctionError(msg)
    state = [_declared(columns[field.name], field, count, name) for field in fields]
    if DROP not in columns:
        return state, np.zeros(count, dtype=np.bool_)
    drop = _declared(columns[DROP], pa.field(DROP, pa.bool_()), count, name)
    return state, drop.fill_null(False).to_numpy(zero_copy_only=False)


def named_columns(answer: FrameAnswer, name: str) -> Mapping[str, Any]:
    """Columns of an answer by name. Raises UserFunctionError."""
    if isinstance(answer, Mapping):
        return answer
    if callable(convert := getattr(answer, "to_arrow", None)):
        answer = convert()
    if isinstance(answer, pa.RecordBatch | pa.Table):
        return dict(zip(answer.schema.names, answer.columns, strict=True))
    msg = (
        f"{name} must answer a RecordBatch, a polars DataFrame or a dict of arrays, "
        f"not {type(answer).__name__}"
    )
    raise UserFunctionError(msg)


def _declared(values: Any, field: pa.Field, count: int, name: str) -> pa.Array:
    column = declared_column(values, field, name)
    if len(column) != count:
        msg = f"{name}: column {field.name!r} has {len(column)} values for {count} keys"
        raise UserFunctionError(msg)
    return column


def declared_column(values: Any, field: pa.Field, name: str) -> pa.Array:
    """A column of an answer in its declared type. Raises UserFunctionError."""
    try:
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        column = fitted(column, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        msg = (
            f"{name}: column {field.name!r} is declared {type_name(field.type)} "
            f"and got something else: {error}"
        )
        raise UserFunctionError(msg) from error
    return column


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name not in batch.schema.names:
        msg = f"no column {name!r}; there are {', '.join(batch.schema.names) or 'none'}"
        raise KeyError(msg)
    return batch.column(name)


def _valid(column: pa.Array) -> Mask:
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _filled(column: pa.Array, value: Any) -> AnyArray:
    if column.null_count:
        column = column.fill_null(pa.scalar(value).cast(column.type))
    return np.asarray(column.to_numpy(zero_copy_only=False))


EXACT = 1 << 53
"""Up to which whole numbers are doubles exactly."""


def as_array(column: pa.Array, default: Any) -> AnyArray:
    """Return a column as an array. Whole numbers with nulls are doubles with NaN, as long as those are exact."""
    if default is not None and column.null_count:
        column = column.fill_null(pa.scalar(default, type=column.type))
    if column.null_count and pa.types.is_integer(column.type):
        bounds = pc.min_max(column).as_py().values()
        if any(each is not None and abs(each) > EXACT for each in bounds):
            return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _number(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = _column(batch, name)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        msg = f"column {name!r} is {type_name(column.type)}; sum, min and max are for numbers"
        raise TypeError(msg)
    return column


def _limit(kind: pa.DataType, *, highest: bool) -> Any:
    dtype = np.dtype(kind.to_pandas_dtype())
    if dtype.kind == "f":
        return dtype.type(np.nan if highest else -np.inf)
    return np.iinfo(dtype).max if highest else np.iinfo(dtype).min


# Rows that a vectorised function answers for the keys of a frame: any number per key -----------------------------


def rows_of_answer(
    answer: FrameAnswer, fields: pa.Schema, count: int, name: str
) -> tuple[IntArray, Columns]:
    """Return the key number of every row of an answer, ascending, and its columns. Raises UserFunctionError.

    fields: columns of the answer. count: number of keys. name: of the function, or what else messages call it.
    """
    columns = named_columns(answer, name)
    missing = [field.name for field in fields if field.name not in columns]
    unknown = [column for column in columns if column not in fields.names and column != KEY]
    if missing or unknown:
        msg = (
            f"{name} must answer the columns {', '.join(fields.names)}, and {KEY!r} where it is not one row per key"
            + (f"; {missing[0]!r} is missing" if missing else "")
            + (f"; {unknown[0]!r} is not one of them" if unknown else "")
        )
        raise UserFunctionError(msg)
    made = [declared_column(columns[field.name], field, name) for field in fields]
    owners = _owners(columns, count, name)
    for field, column in zip(fields, made, strict=True):
        if len(column) != len(owners):
            whose = f"{len(owners)} values of {KEY!r}" if KEY in columns else f"{count} keys"
            msg = f"{name}: column {field.name!r} has {len(column)} values for {whose}"
            raise UserFunctionError(msg)
    if not bool((owners[1:] < owners[:-1]).any()):
        return owners, made
    order = np.argsort(owners, kind="stable")
    return owners[order], [column.take(pa.array(order)) for column in made]


def _owners(columns: Any, count: int, name: str) -> IntArray:
    """Key number of every row."""
    if KEY not in columns:
        return np.arange(count, dtype=np.int64)
    declared = declared_column(columns[KEY], pa.field(KEY, pa.int64()), name)
    owners: IntArray = declared.fill_null(-1).to_numpy(zero_copy_only=False)
    if len(owners) and (owners.min() < 0 or owners.max() >= count):
        msg = f"{name}: {KEY!r} is the number of a key, from 0 to {count - 1}, and never null"
        raise UserFunctionError(msg)
    return owners
