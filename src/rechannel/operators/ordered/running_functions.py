"""Functions over the order of a key's rows: one value per row, out of the rows up to it.

What such a function keeps of a key is the state of an aggregate: `lag` the last values of a column, `cumulative` the
aggregate itself. So state is stored, shown and migrated as that of aggregates is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.model.buffers import Mask
from rechannel.model.ddl import type_name
from rechannel.operators.aggregate.functions import CountDistinct, LastN, schema_error
from rechannel.operators.aggregate.functions.inputs import (
    NUMBERS,
    is_decimal,
    is_number,
    plain,
    plain_type,
)
from rechannel.operators.aggregate.functions.lists import Ranges
from rechannel.operators.aggregate.functions.messages import overflow_named
from rechannel.operators.aggregate.running_states import running


@runtime_checkable
class RunningFunction(Protocol):
    """One column that every row gets. Pure; vectorised over groups."""

    @property
    def keeps(self) -> AggregateFunction:
        """What it remembers of a key, as an aggregate; its inputs are the function's."""

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """Field (type; the caller replaces the name) of the column. Raises DataflowError for types it cannot take."""

    def over(
        self, fields: list[pa.Field], values: Columns, groups: Groups, old: Columns, found: Mask
    ) -> tuple[pa.Array, Columns]:
        """The column, and the new state of every group.

        values: inputs, sorted by group and then by order. old, found: state before, and whether there was one.
        """


@dataclass(frozen=True, kw_only=True)
class _Earlier:
    """Shared by `Lag` and `Difference`: the value `n` rows before. State: the last `n` values of the column."""

    column: str
    n: int = 1

    @property
    def keeps(self) -> AggregateFunction:
        """The last values."""
        return LastN(column=self.column, n=self.n)

    def _earlier(self, values: pa.Array, groups: Groups, old: pa.Array, found: Mask) -> _Found:
        """Values of `n` rows before: of this timestep's rows, then of those that are kept."""
        rows = np.arange(groups.rows)
        place = rows - np.repeat(groups.starts, groups.sizes)
        lists = Ranges.of_lists(old)
        lengths = lists.lengths * found
        here, back = place >= self.n, self.n - place
        there = here | (np.repeat(lengths, groups.sizes) >= back)
        ends = np.repeat(lists.starts + lengths, groups.sizes)
        source = np.where(here, rows - self.n, len(values) + ends - back)
        both = pa.concat_arrays([values, old.values])
        return _Found(both.take(pa.array(source, mask=~there)), there)

    def _state(self, values: Columns, groups: Groups, old: Columns, found: Mask) -> Columns:
        new = self.keeps.partial(values, groups)
        return self.keeps.merge_pair(old, new, found) if found.any() else new


@dataclass(frozen=True)
class _Found:
    """Values of other rows, null where there is no such row. there: where there is."""

    values: pa.Array
    there: Mask


@dataclass(frozen=True, kw_only=True)
class Lag(_Earlier):
    """The value that a column had `n` rows before. default: for rows that have fewer than `n` before them."""

    default: Any = None

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """The column's own type."""
        kind = plain_type(inputs[0].type)
        self._scalar(kind)
        return pa.field("lag", kind)

    def over(
        self, fields: list[pa.Field], values: Columns, groups: Groups, old: Columns, found: Mask
    ) -> tuple[pa.Array, Columns]:
        """Return values of earlier rows, or the default for rows without one."""
        array = plain(values[0])
        earlier = self._earlier(array, groups, old[0], found)
        shown = earlier.values
        if self.default is not None and not earlier.there.all():
            shown = pc.if_else(pa.array(earlier.there), shown, self._scalar(array.type))
        return shown, self._state([array], groups, old, found)

    def _scalar(self, kind: pa.DataType) -> pa.Scalar:
        msg = f"lag({self.column!r}): default={self.default!r} is not a value of type {type_name(kind)}"
        try:
            made = pa.scalar(self.default, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataflowError(msg) from error
        if pa.types.is_integer(kind) and made.as_py() != self.default:
            raise DataflowError(msg)
        return made


@dataclass(frozen=True, kw_only=True)
class Difference(_Earlier):
    """The difference between a column and its value `n` rows before; null if that row or either value is missing."""

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """bigint of integers, double of floats, a decimal with one digit more of decimals."""
        kind = plain_type(inputs[0].type)
        if not is_number(kind):
            raise schema_error("difference", inputs[0], NUMBERS)
        return pa.field("difference", _difference_type(kind))

    def over(
        self, fields: list[pa.Field], values: Columns, groups: Groups, old: Columns, found: Mask
    ) -> tuple[pa.Array, Columns]:
        """Values less those of earlier rows. Raises TimestepError where one does not fit."""
        array = plain(values[0])
        earlier = self._earlier(array, groups, old[0], found).values
        return self._less(array, earlier), self._state([array], groups, old, found)

    def _less(self, now: pa.Array, earlier: pa.Array) -> pa.Array:
        kind = _difference_type(now.type)
        # Decimals have a wider type in between: Arrow has none of 39 digits otherwise.
        wide = pa.decimal256(now.type.precision, now.type.scale) if is_decimal(now.type) else kind
        with overflow_named("difference", self.column, kind):
            try:
                return pc.subtract_checked(now.cast(wide), earlier.cast(wide)).cast(kind)
            except pa.ArrowInvalid as error:
                raise OverflowError from error


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """An aggregate of a key's rows up to each of them."""

    function: AggregateFunction

    def __post_init__(self) -> None:
        """Refuse what has no running value that can be made of whole columns."""
        if isinstance(self.function, CountDistinct):
            msg = (
                "count_distinct cannot be cumulative: every row would need a sketch of its own. Use"
                " aggregate(n=count_distinct(...)), which shows it once per timestep"
            )
            raise DataflowError(msg)

    @property
    def keeps(self) -> AggregateFunction:
        """Return the aggregate, which is the state."""
        return self.function

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """Return the output field of the aggregate."""
        return self.function.output_field(inputs)

    def over(
        self, fields: list[pa.Field], values: Columns, groups: Groups, old: Columns, found: Mask
    ) -> tuple[pa.Array, Columns]:
        """Return finished values after each row."""
        return running(self.function, fields, values, groups, old, found)


def _difference_type(kind: pa.DataType) -> pa.DataType:
    if is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 1), kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()
