"""Exact sums: the state is a function of the multiset of values, and close to the true sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.exact import ExactSums
from rechannel.kernels.columnar.groups import Groups

SUMS = ExactSums(sum_bins=5, square_bins=6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
CLOSE = st.floats(-1e6, 1e6)
EVERY = st.floats()
SUBNORMAL = st.floats(-1e-307, 1e-307)
VALUES = st.one_of(*(st.lists(kind, min_size=1, max_size=30) for kind in (EVERY, CLOSE, SUBNORMAL)))


def one_group(rows: int) -> Groups:
    return Groups(np.zeros(min(rows, 1), np.int64), rows)


def partial(values: list[float], sums: ExactSums = SUMS) -> Columns:
    return sums.partial(np.array(values), None, one_group(len(values)))


def stacked(states: list[Columns]) -> Columns:
    return [pa.concat_arrays(parts) for parts in zip(*states, strict=True)]


def tree(values: list[float], draw: Callable[..., int]) -> Columns:
    """State of the values by a random tree of partial, merge and merge_pair."""
    if len(values) == 1 or draw(st.integers(0, 3)) == 0:
        return partial(values)
    cuts = sorted({draw(st.integers(1, len(values) - 1)) for _ in range(draw(st.integers(1, 3)))})
    edges = [0, *cuts, len(values)]
    states = [tree(values[a:b], draw) for a, b in pairwise(edges)]
    if len(states) == 2 and draw(st.booleans()):
        return SUMS.merge_pair(states[0], states[1], np.ones(1, np.bool_))
    return SUMS.merge(stacked(states), one_group(len(states)))


def value_of(states: Columns, sums: ExactSums = SUMS) -> float:
    mantissas, exponents = sums.sums(states)
    with np.errstate(over="ignore"):
        return float(np.ldexp(mantissas, exponents)[0])


@given(VALUES, st.data())
def test_the_state_does_not_depend_on_order_or_grouping(values: list[float], data: st.DataObject):
    expected = partial(values)
    shuffled = data.draw(st.permutations(values))
    got = tree(shuffled, data.draw)
    assert [column.to_pylist() for column in got] == [column.to_pylist() for column in expected]


@given(st.one_of(st.lists(FINITE, min_size=1), st.lists(CLOSE, min_size=1)))
def test_the_sum_is_within_the_stated_error(values: list[float]):
    sums = ExactSums()
    truth = sum(map(Fraction, values))
    largest = max(abs(Fraction(value)) for value in values)
    got = value_of(partial(values, sums), sums)
    if math.isinf(got):
        assert abs(truth) > Fraction(2) ** 1023
        return
    rounding = Fraction(math.ulp(got)) / 2 * (1 + Fraction(1, 2**40))
    assert abs(Fraction(got) - truth) <= rounding + len(values) * largest / 2**78


@given(st.lists(CLOSE.filter(lambda value: value == 0 or abs(value) > 1e-6), min_size=1))
def test_sums_without_extreme_ranges_are_those_of_fsum(values: list[float]):
    assert value_of(partial(values)) == math.fsum(values)


@given(st.lists(SUBNORMAL, min_size=1))
def test_subnormal_values_add_up_exactly(values: list[float]):
    assert value_of(partial(values)) == math.fsum(values)


@given(
    st.lists(st.lists(st.one_of(st.none(), EVERY), min_size=1, max_size=6), min_size=1, max_size=8)
)
def test_groups_are_independent(rows: list[list[float | None]]):
    sizes = [len(group) for group in rows]
    flat = [value for group in rows for value in group]
    starts = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
    valid = np.array([value is not None for value in flat])
    numbers = np.array([math.inf if value is None else value for value in flat])
    together = SUMS.partial(numbers, valid, Groups(starts, len(flat)))
    for i, group in enumerate(rows):
        present = [value for value in group if value is not None]
        alone = (
            partial(present)
            if present
            else SUMS.partial(np.zeros(1), np.zeros(1, np.bool_), one_group(1))
        )
        assert [column[i].as_py() for column in together] == [column[0].as_py() for column in alone]
        assert bool(SUMS.empty(together)[i]) == (not present)
