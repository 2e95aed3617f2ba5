"""All rows of many keys as one frame: what a function of whole groups sees and may answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.model.buffers import IntArray, Mask
from rechannel.operators.process.track_frame import (
    EXACT,
    FrameAnswer,
    KeyedFrame,
    as_polars,
    rows_of_answer,
)

if TYPE_CHECKING:
    import polars as pl

AnyArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupFrame:
    """Keys, and all rows of each.

    keys: key columns, one row per key.
    rows: the other columns of all rows, sorted by key and, within a key, by stream order.
    sizes: number of rows of each key; in a cogroup it may be 0 on one side. Shape (keys,).

    The helpers give one numpy value per key; a key without rows gets 0 or the default. Nulls are skipped, as SQL does.
    """

    keys: pa.RecordBatch
    rows: pa.RecordBatch
    sizes: IntArray

    @cached_property
    def starts(self) -> IntArray:
        """First row of each key. Shape (keys,)."""
        starts: IntArray = np.cumsum(self.sizes) - self.sizes
        return starts

    @cached_property
    def ids(self) -> IntArray:
        """Key number of each row. Shape (rows,)."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __repr__(self) -> str:
        names = ", ".join(self.rows.schema.names)
        return f"<GroupFrame: {len(self)} keys, {self.rows.num_rows} rows of {names}>"

    def count(self, column: str | None = None) -> IntArray:
        """Number of rows of each key, or of those whose value is not null."""
        return self.sizes if column is None else self._spread(self._present.count(column), 0)

    def sum(self, column: str) -> AnyArray:
        """Sum of each key's values (int64 or float64); 0 where all are null."""
        return self._spread(self._present.sum(column), 0)

    def min(self, column: str, default: Any = None) -> AnyArray:
        """Smallest number of each key (NaN counts as largest); the default where all are null."""
        return self._spread(self._present.min(column, default), default)

    def max(self, column: str, default: Any = None) -> AnyArray:
        """Largest number of each key; the default where all are null."""
        return self._spread(self._present.max(column, default), default)

    def first(self, column: str, default: Any = None) -> AnyArray:
        """Value of each key's first row, of any type; the default where it is null."""
        return self._spread(self._present.first(column, default), default)

    def last(self, column: str, default: Any = None) -> AnyArray:
        """Value of each key's last row, of any type; the default where it is null."""
        return self._spread(self._present.last(column, default), default)

    def to_polars(self) -> pl.DataFrame:
        """All rows with their key columns and `_key`, the key number, by which to group."""
        return as_polars(self.keys, self.rows, self.ids)

    @cached_property
    def _there(self) -> Mask:
        there: Mask = self.sizes > 0
        return there

    @cached_property
    def _present(self) -> KeyedFrame:
        """The keys that have rows."""
        there = self._there
        return KeyedFrame(
            keys=self.keys,
            state=self.keys,
            found=there,
            rows=self.rows,
            groups=Groups(starts=self.starts[there], rows=self.rows.num_rows),
        )

    def _spread(self, values: AnyArray, nothing: Any) -> AnyArray:
        """Values of the keys that have rows, and nothing for the others."""
        if self._there.all():
            return values
        kind = values.dtype
        if nothing is None:
            if kind.kind in "iu":
                exact = len(values) == 0 or max(abs(int(values.min())), int(values.max())) <= EXACT
                kind = np.dtype(float if exact else object)
            kind = np.dtype(object) if kind.kind == "b" else kind
            nothing = np.datetime64("NaT") if kind.kind == "M" else None
        out = np.full(len(self), nothing, dtype=kind)
        out[self._there] = values
        return out


ApplyBatches = Callable[..., FrameAnswer]
"""Frames of the same keys, one per stream -> rows. With a column `_key`, the number of each row's key, any number of
rows per key; without it one row per key, row i for key i."""


def call(
    function: ApplyBatches, frames: tuple[GroupFrame, ...], fields: pa.Schema
) -> tuple[IntArray, Columns]:
    """Key number of every row of the answer, ascending, and its columns. Raises UserFunctionError.

    fields: columns of the answer.
    """
    count, name = len(frames[0]), function_name(function)
    if not count:
        return np.empty(0, dtype=np.int64), [pa.array([], field.type) for field in fields]
    try:
        answer = function(*frames)
    except Exception as error:
        raise user_error(f"{name} for {count} keys", error) from error
    return rows_of_answer(answer, fields, count, name)
