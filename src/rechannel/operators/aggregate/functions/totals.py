"""The three ways to add up a column: integers, decimals and floats, with one interface.

`Sum` and `Mean` pick one by the type of the column (or of the state) and do nothing else with
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar import reductions
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.exact import ExactSums
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.reductions import some
from rechannel.model.buffers import IntArray, Mask, column, numbers, validity, word_pairs
from rechannel.operators.aggregate.functions import integers
from rechannel.operators.aggregate.functions.inputs import doubles, either, kept, plain


class Total(Protocol):
    """A sum per group. Arithmetic raises OverflowError where a sum does not fit."""

    @property
    def fields(self) -> list[pa.Field]:
        """Fields of the state."""

    def partial(self, values: pa.Array, groups: Groups) -> Columns:
        """One state per group of values."""

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """One state per group of states."""

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Old states (where found) plus new ones."""

    def tally(self, states: Columns) -> Columns:
        """What has to be known besides, for states to be taken out of a merged one: of every state by itself."""

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """One state per group of states that are followed by their tallies; so is it."""

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask | None]:
        """Subtract from each state one that was merged into it, both with tallies; return also which are unclear."""

    def final(self, states: Columns) -> pa.Array:
        """Return the sums."""


class _Nullable:
    """Sums that are null where no value was seen: their tally is how many states are not."""

    if TYPE_CHECKING:

        def merge(self, states: Columns, groups: Groups) -> Columns:
            """One state per group of states."""

    def tally(self, states: Columns) -> Columns:
        """One for a sum of values."""
        valid = validity(states[0])
        ones = np.ones(len(states[0]), dtype=np.int64)
        return [column(pa.int64(), ones if valid is None else valid.astype(np.int64))]

    def final(self, states: Columns) -> pa.Array:
        """Return the state itself."""
        return states[0]

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        return [
            *self.merge(totals[:1], groups),
            column(pa.int64(), reductions.total(numbers(totals[1]), groups)),
        ]


@dataclass(frozen=True, slots=True)
class IntegerTotal(_Nullable):
    """Sum of integers in one nullable int64."""

    @property
    def fields(self) -> list[pa.Field]:
        """The sum, null when no value was seen."""
        return [pa.field("sum", pa.int64())]

    def partial(self, values: pa.Array, groups: Groups) -> Columns:
        """Sums of raw values."""
        valid = validity(values)
        sums = integers.total(_masked(values, valid), groups)
        return [column(pa.int64(), sums, some(valid, groups))]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        return self.partial(states[0], groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Sums added."""
        before, after = kept(old[0], found), validity(new[0])
        sums = integers.add(_masked(new[0], after), _masked(old[0], before))
        return [column(pa.int64(), sums, either(before, after))]

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, None]:
        """Return the differences of the sums."""
        one, other = (_masked(each[0], validity(each[0])) for each in (totals, others))
        sums, left = integers.less(one, other), _left(totals[1], others[1])
        return [column(pa.int64(), sums, _some(left)), column(pa.int64(), left)], None


@dataclass(frozen=True, slots=True)
class DecimalTotal(_Nullable):
    """Sum of decimals, or of 64-bit integers, in one nullable decimal of a given type."""

    kind: pa.DataType

    @property
    def fields(self) -> list[pa.Field]:
        """The sum, null when no value was seen."""
        return [pa.field("sum", self.kind)]

    def partial(self, values: pa.Array, groups: Groups) -> Columns:
        """Sums of raw values."""
        valid = validity(values)
        if pa.types.is_integer(values.type):
            wide = integers.widened(_masked(values, valid))
        else:
            wide = integers.masked(word_pairs(values), valid)
        return [self._column(integers.wide_total(wide, groups), some(valid, groups))]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        return self.partial(states[0], groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Sums added."""
        before, after = kept(old[0], found), validity(new[0])
        left = integers.masked(word_pairs(new[0]), after)
        right = integers.masked(word_pairs(old[0]), before)
        return [self._column(integers.wide_add(left, right), either(before, after))]

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, None]:
        """Return the differences of the sums."""
        one, other = (
            integers.masked(word_pairs(each[0]), validity(each[0])) for each in (totals, others)
        )
        left = _left(totals[1], others[1])
        sums = self._column(integers.wide_add(one, integers.negative(other)), _some(left))
        return [sums, column(pa.int64(), left)], None

    def _column(self, wide: integers.Wide, valid: Mask | None) -> pa.Array:
        integers.check_digits(wide, self.kind.precision)
        return integers.decimal_column(self.kind, wide, valid)


@dataclass(frozen=True, slots=True)
class FloatTotal:
    """Order-free sum of floats as doubles."""

    sums: ExactSums = field(default_factory=ExactSums)

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of an exact sum."""
        return self.sums.fields

    def partial(self, values: pa.Array, groups: Groups) -> Columns:
        """Sums of raw values."""
        return self.sums.partial(doubles(values), validity(values), groups)

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        return self.sums.merge(states, groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Sums added."""
        return self.sums.merge_pair(old, new, found)

    def tally(self, states: Columns) -> Columns:
        """How many reach the top, and have flags."""
        return self.sums.tally(states)

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Sums of sums."""
        return self.sums.merge_tallied(totals, groups)

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask]:
        """Return differences, and which of them are unclear."""
        return self.sums.subtract(totals, others)

    def final(self, states: Columns) -> pa.Array:
        """Return sums rounded to the nearest double; null where no value was seen."""
        with np.errstate(over="ignore"):  # a sum beyond the doubles is infinite
            sums = np.ldexp(*self.sums.sums(states))
        empty = self.sums.empty(states)
        return column(pa.float64(), sums, ~empty if empty.any() else None)


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Result type of a sum, Spark's: bigint, double, or a decimal with ten digits more."""
    if pa.types.is_decimal128(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    return pa.float64() if pa.types.is_floating(kind) else pa.int64()


def total_of_states(states: Columns) -> Total:
    """The way of adding up that made these state columns."""
    if len(states) > 1:
        return FloatTotal()
    kind = states[0].type
    return DecimalTotal(kind) if pa.types.is_decimal128(kind) else IntegerTotal()


def tallied(totals: Columns) -> Total:
    """The way of adding up that made these state columns, which are followed by their tallies."""
    return FloatTotal() if len(totals) > 2 else total_of_states(totals[:1])


def _left(total: pa.Array, other: pa.Array) -> IntArray:
    """How many of the states with a value have not left."""
    left: IntArray = np.subtract(numbers(total), numbers(other), dtype=np.int64)
    return left


def _some(left: IntArray) -> Mask | None:
    valid = left > 0
    return None if valid.all() else valid


def _masked(values: pa.Array, valid: Mask | None) -> IntArray:
    """Integers with 0 where the mask does not hold."""
    data = numbers(plain(values)).astype(np.int64, copy=False)
    return data if valid is None else data * valid
