"""Sum and mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import TimestepError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.reductions import total
from rechannel.model.buffers import Mask, column, numbers
from rechannel.operators.aggregate.functions.count import (
    COUNT,
    Count,
    add_counts,
    count_rows,
    less_counts,
)
from rechannel.operators.aggregate.functions.inputs import (
    NUMBERS,
    OneColumn,
    doubles,
    is_decimal,
    is_number,
    one_null,
    plain,
    plain_type,
)
from rechannel.operators.aggregate.functions.messages import overflow_named, schema_error
from rechannel.operators.aggregate.functions.running_sums import exact_sums
from rechannel.operators.aggregate.functions.totals import (
    DecimalTotal,
    FloatTotal,
    IntegerTotal,
    Total,
    sum_type,
    tallied,
    total_of_states,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(OneColumn):
    """Sum of a column's values; null when all are null.

    Integers add up in int64, decimals exactly with ten digits more (at most 38), floats in double
    and free of order. A sum that does not fit fails the timestep, as Spark does in ANSI mode.
    """

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """One nullable sum for integers and decimals; the columns of an exact sum for floats."""
        return _sum_total(_checked("sum", inputs[0])).fields

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """Spark's result type of `sum`."""
        return pa.field("sum", sum_type(_checked("sum", inputs[0])))

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """A sum of no values."""
        return self.partial(*one_null(inputs))

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Sums of raw rows."""
        array = plain(values[0])
        with overflow_named("sum", self.column, sum_type(array.type)):
            return _sum_total(array.type).partial(array, groups)

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        with overflow_named("sum", self.column, states[0].type):
            return total_of_states(states).merge(states, groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Sums added."""
        with overflow_named("sum", self.column, new[0].type):
            return total_of_states(new).merge_pair(old, new, found)

    def tally(self, states: Columns) -> Columns:
        """Those of the way of adding up."""
        return total_of_states(states).tally(states)

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        with overflow_named("sum", self.column, totals[0].type):
            return tallied(totals).merge_tallied(totals, groups)

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask | None]:
        """Return differences, and a mask of those that must be merged anew."""
        with overflow_named("sum", self.column, totals[0].type):
            return tallied(totals).subtract(totals, others)

    def running_states(
        self, values: Columns, groups: Groups, before: Columns, known: Mask
    ) -> Columns | None:
        """Return the sum after each row; None if it is one of floats."""
        if len(before) > 1:
            return None
        with overflow_named("sum", self.column, before[0].type):
            return [exact_sums(plain(values[0]), groups, before[0], known)]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Sums; those of floats rounded to the nearest double."""
        return total_of_states(states).final(states)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(OneColumn):
    """Mean of a column's values; null when all are null.

    Integers: the exact sum divided in double. Floats: the order-free sum divided. Decimals: Spark's
    avg, four more digits after the point, halves rounded away from zero.
    """

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """A count and a sum that cannot overflow before the count does."""
        return [COUNT, *_mean_total(_checked("mean", inputs[0])).fields]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """Spark's result type of `avg`."""
        return pa.field("mean", _mean_type(_checked("mean", inputs[0])))

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """Return the state of no values: a count of 0."""
        return self.partial(*one_null(inputs))

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Counts and sums of raw rows."""
        array = plain(values[0])
        counts = column(pa.int64(), count_rows(array, groups))
        with overflow_named("mean", self.column, sum_type(array.type)):
            return [counts, *_mean_total(array.type).partial(array, groups)]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Counts and sums added up."""
        counts = column(pa.int64(), total(numbers(states[0]), groups))
        with overflow_named("mean", self.column, states[1].type):
            return [counts, *total_of_states(states[1:]).merge(states[1:], groups)]

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Counts and sums added."""
        counts = column(pa.int64(), add_counts(old[0], new[0], found))
        with overflow_named("mean", self.column, new[1].type):
            way = total_of_states(new[1:])
            return [counts, *way.merge_pair(old[1:], new[1:], found)]

    def tally(self, states: Columns) -> Columns:
        """Return the tallies of the sum."""
        return total_of_states(states[1:]).tally(states[1:])

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Counts and sums added up."""
        counts = column(pa.int64(), total(numbers(totals[0]), groups))
        with overflow_named("mean", self.column, totals[1].type):
            return [counts, *tallied(totals[1:]).merge_tallied(totals[1:], groups)]

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask | None]:
        """Return differences of counts and sums, and a mask of those that must be merged anew."""
        with overflow_named("mean", self.column, totals[1].type):
            left, unclear = tallied(totals[1:]).subtract(totals[1:], others[1:])
        return [less_counts(totals[0], others[0]), *left], unclear

    def running_states(
        self, values: Columns, groups: Groups, before: Columns, known: Mask
    ) -> Columns | None:
        """Return count and sum after each row; None if it is a sum of floats."""
        if len(before) > 2:
            return None
        array = plain(values[0])
        counts = Count(column=self.column).running_states([array], groups, before[:1], known)
        with overflow_named("mean", self.column, before[1].type):
            return [*counts, exact_sums(array, groups, before[1], known)]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Sums divided by counts."""
        kind = plain_type(inputs[0].type)
        counts = numbers(states[0]).astype(np.int64, copy=False)
        empty = counts == 0
        if is_decimal(kind):
            return self._decimal(states[1], column(pa.int64(), counts, ~empty), _mean_type(kind))
        divisors = np.where(empty, 1, counts)
        if pa.types.is_floating(kind):
            mantissas, exponents = FloatTotal().sums.sums(states[1:])
            with np.errstate(over="ignore"):
                return _nullable(np.ldexp(mantissas / divisors, exponents), empty)
        return _nullable(doubles(states[1]) / divisors, empty)

    def _decimal(self, sums: pa.Array, counts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Quotients of decimals: cut at 20 digits after the sum's scale, then rounded once."""
        wide = sums.cast(pa.decimal256(38, sums.type.scale))
        quotients = pc.divide(wide, counts.cast(pa.decimal256(19, 0)))
        rounded = pc.round(quotients, kind.scale, round_mode="half_towards_infinity")
        try:
            return rounded.cast(kind)
        except pa.ArrowInvalid as error:
            msg = (
                f"mean({self.column!r}) does not fit its result type {kind}. "
                f"Cast column {self.column!r} to a decimal with fewer digits after the point."
            )
            raise TimestepError(msg) from error


def _checked(aggregate: str, field: pa.Field) -> pa.DataType:
    kind = plain_type(field.type)
    if not is_number(kind):
        raise schema_error(aggregate, field, NUMBERS)
    return kind


def _sum_total(kind: pa.DataType) -> Total:
    if pa.types.is_floating(kind):
        return FloatTotal()
    return DecimalTotal(sum_type(kind)) if is_decimal(kind) else IntegerTotal()


def _mean_total(kind: pa.DataType) -> Total:
    if pa.types.is_integer(kind) and kind.bit_width > 32:
        return DecimalTotal(pa.decimal128(38, 0))
    return _sum_total(kind)


def _mean_type(kind: pa.DataType) -> pa.DataType:
    if is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))
    return pa.float64()


def _nullable(values: np.ndarray[tuple[int], np.dtype[np.float64]], empty: Mask) -> pa.Array:
    return column(pa.float64(), values, ~empty if empty.any() else None)
