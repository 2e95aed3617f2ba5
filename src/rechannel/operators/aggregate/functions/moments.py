"""Variance and standard deviation, free of order and without cancellation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.digits import (
    BITS,
    Digits,
    FloatArray,
    carried,
    difference,
    product,
    to_double,
)
from rechannel.kernels.columnar.exact import ExactSums, blocks
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.reductions import total
from rechannel.model.buffers import IntArray, Mask, column, numbers, validity
from rechannel.operators.aggregate.functions.count import COUNT, add_counts, count_rows, less_counts
from rechannel.operators.aggregate.functions.inputs import (
    NUMBERS,
    OneColumn,
    doubles,
    is_number,
    one_null,
    plain,
    plain_type,
)
from rechannel.operators.aggregate.functions.messages import schema_error

SUMS = ExactSums(sum_bins=5, square_bins=6)
"""Five bins for the sum, six for the squares, down to the same weight: a double in the top bin and
its square are kept whole, so that equal values have variance 0 exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment(OneColumn):
    """Shared by `Variance` and `Stddev`: count, sum and sum of squares of a column as doubles.

    population: divide by n instead of n - 1.

    Null for no values, and for one value unless `population`; NaN once a NaN or infinity was seen.
    """

    population: bool = False

    NAME: ClassVar[str]
    ROOT: ClassVar[bool]

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """Count, and the columns of the exact sums."""
        if not is_number(plain_type(inputs[0].type)):
            raise schema_error(self.NAME, inputs[0], NUMBERS)
        return [COUNT, *SUMS.fields]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """A double."""
        self.state_fields(inputs)
        return pa.field(self.NAME, pa.float64())

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """No values and sums of nothing."""
        return self.partial(*one_null(inputs))

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Moments of raw rows."""
        array = plain(values[0])
        counts = column(pa.int64(), count_rows(array, groups))
        return [counts, *SUMS.partial(doubles(array), validity(array), groups)]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Moments added up."""
        counts = column(pa.int64(), total(numbers(states[0]), groups))
        return [counts, *SUMS.merge(states[1:], groups)]

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Moments added."""
        counts = column(pa.int64(), add_counts(old[0], new[0], found))
        return [counts, *SUMS.merge_pair(old[1:], new[1:], found)]

    def tally(self, states: Columns) -> Columns:
        """Those of the exact sums."""
        return SUMS.tally(states[1:])

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Moments added up."""
        counts = column(pa.int64(), total(numbers(totals[0]), groups))
        return [counts, *SUMS.merge_tallied(totals[1:], groups)]

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask]:
        """Return differences of the moments, and which of them are unclear."""
        left, unclear = SUMS.subtract(totals[1:], others[1:])
        return [less_counts(totals[0], others[0]), *left], unclear

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """(n Q - S^2) / (n (n - 1)), or / n^2, for the sum S and the sum of squares Q."""
        counts = numbers(states[0]).astype(np.int64, copy=False)
        tops, flags, sums, squares = SUMS.raw(states[1:])
        spreads = _spreads(counts, sums, squares)
        defined = counts >= (1 if self.population else 2)
        n = np.where(defined, counts, 2).astype(np.float64)
        spreads /= n * (n if self.population else n - 1)
        exponents = 2 * BITS * tops
        if self.ROOT:  # the root fits a double even where the variance does not
            spreads, exponents = np.sqrt(spreads), BITS * tops
        with np.errstate(over="ignore"):
            result = np.ldexp(spreads, exponents)
        result = np.where(flags > 0, np.nan, result)
        return column(pa.float64(), result, None if defined.all() else defined)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variance(_Moment):
    """Variance of a column: of a sample (n - 1) unless `population` is set."""

    NAME: ClassVar[str] = "variance"
    ROOT: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stddev(_Moment):
    """Standard deviation of a column: of a sample (n - 1) unless `population` is set."""

    NAME: ClassVar[str] = "stddev"
    ROOT: ClassVar[bool] = True


def _spreads(counts: IntArray, sums: Digits, squares: Digits) -> FloatArray:
    """n Q - S^2 in units of the window's top, by exact integer arithmetic, rounded once."""
    out = np.empty(len(counts))
    for block in blocks(len(counts)):
        n = carried([counts[block]], more=1)
        total_ = carried([part[block] for part in sums], more=2)
        squares_ = carried([part[block] for part in squares], more=2)
        # First digits weigh 2^26 (n), 2^52 (S, two above its window) and 2^78 (Q, likewise).
        long = difference(product(n, squares_), product(total_, total_))
        out[block] = to_double(carried(long), unit=4)
    return np.maximum(out, 0.0)  # what fell below the windows may leave less than nothing
