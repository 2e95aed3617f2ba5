"""Smallest and largest value of every type that has an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.columnar import reductions
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import (
    Mask,
    boolean_column,
    booleans,
    column,
    numbers,
    validity,
    word_pairs,
)
from rechannel.operators.aggregate.functions.byte_order import extreme_rows
from rechannel.operators.aggregate.functions.inputs import (
    OneColumn,
    choose,
    either,
    is_decimal,
    kept,
    one_null,
    plain,
    plain_type,
)
from rechannel.operators.aggregate.functions.integers import decimal_column
from rechannel.operators.aggregate.functions.messages import schema_error

Numbers = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extreme(OneColumn):
    """Shared by `Min` and `Max`. The state is one value of the column's type, null for none.

    NaN is larger than every number; 0.0 and -0.0 are one value, 0.0; strings are compared by their
    bytes. All this is Spark's order.
    """

    NAME: ClassVar[str]
    LARGEST: ClassVar[bool]

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """Return one field: the extreme so far."""
        kind = plain_type(inputs[0].type)
        if not _is_orderable(kind):
            takes = (
                "numbers, decimals of up to 38 digits, strings, binary, booleans, dates and times"
            )
            raise schema_error(self.NAME, inputs[0], takes)
        return [pa.field(self.NAME, kind)]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """The column's own type."""
        return self.state_fields(inputs)[0]

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """Return null: no value has been seen."""
        return self.partial(*one_null(inputs))

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Extremes of raw rows."""
        array = plain(values[0])
        if _is_bytes(array.type):
            if groups.count == groups.rows:
                return [array]
            return [array.take(extreme_rows(array, groups, largest=self.LARGEST))]
        valid = validity(array)
        present = reductions.some(valid, groups)
        if pa.types.is_boolean(array.type):
            reduced = self._reduce(self._filled(booleans(array).view(np.uint8), valid), groups)
            return [boolean_column(reduced.astype(np.bool_), present)]
        if is_decimal(array.type):
            return [self._decimals(array, valid, present, groups)]
        data = self._filled(numbers(array), valid)
        return [column(array.type, _normal(self._reduce(data, groups)), present)]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Return the extreme of each group of states."""
        return self.partial(states, groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """The better of the two."""
        before, after = kept(old[0], found), validity(new[0])
        kind = new[0].type
        if _is_bytes(kind) or is_decimal(kind) or pa.types.is_boolean(kind):
            return [self._better(old[0], new[0], before, after)]
        left = self._filled(numbers(old[0]), before)
        right = self._filled(numbers(new[0]), after)
        smaller = np.fmin if pa.types.is_floating(kind) else np.minimum
        best = np.maximum(left, right) if self.LARGEST else smaller(left, right)
        return [column(kind, _normal(best), either(before, after))]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Return the state itself."""
        return states[0]

    def _reduce(self, data: Numbers, groups: Groups) -> Numbers:
        reduce = reductions.highest if self.LARGEST else reductions.lowest
        return reduce(data, groups)

    def _filled(self, data: Numbers, valid: Mask | None) -> Numbers:
        """Numbers with the value that never wins where the mask does not hold."""
        if valid is None:
            return data
        return np.where(valid, data, _bounds(data.dtype)[0 if self.LARGEST else 1])

    def _decimals(
        self, array: pa.Array, valid: Mask | None, present: Mask | None, groups: Groups
    ) -> pa.Array:
        """First the best high words, then the best low word among the rows that have it."""
        low, high = word_pairs(array)
        high = self._filled(high, valid).astype(np.int64, copy=False)
        best = self._reduce(high, groups).astype(np.int64, copy=False)
        tied = high == reductions.spread(best, groups)
        lows = self._reduce(self._filled(low, tied if valid is None else tied & valid), groups)
        return decimal_column(array.type, (lows.astype(np.uint64, copy=False), best), present)

    def _better(
        self, old: pa.Array, new: pa.Array, before: Mask | None, after: Mask | None
    ) -> pa.Array:
        wins = booleans(pc.greater(old, new) if self.LARGEST else pc.less(old, new))
        if after is not None:
            wins = wins | ~after  # the comparison is undefined where one side is null
        return choose(wins if before is None else wins & before, old, new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Min(_Extreme):
    """Smallest value of a column; null when all are null."""

    NAME: ClassVar[str] = "min"
    LARGEST: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Max(_Extreme):
    """Largest value of a column; null when all are null."""

    NAME: ClassVar[str] = "max"
    LARGEST: ClassVar[bool] = True


def _bounds(dtype: np.dtype[np.generic]) -> Numbers:
    """The values of a type that no other is smaller, and larger, than."""
    if dtype.kind == "f":
        return np.array([-np.inf, np.nan], dtype)
    bits = 8 * dtype.itemsize
    if dtype.kind == "u":
        return np.array([0, (1 << bits) - 1], dtype)
    return np.array([-(1 << bits - 1), (1 << bits - 1) - 1], dtype)


def _normal(data: Numbers) -> Numbers:
    """Floats with one zero and one NaN; other numbers unchanged."""
    if data.dtype.kind != "f":
        return data
    out = np.add(data, 0, dtype=data.dtype)  # -0.0 + 0 is 0.0
    np.copyto(out, np.nan, where=np.isnan(out), casting="same_kind")
    return out


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def _is_orderable(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or is_decimal(kind)
        or _is_bytes(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_time(kind)
        or types.is_duration(kind)
    )
