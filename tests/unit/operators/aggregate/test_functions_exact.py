from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.columnar import digits
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.exact import EMPTY, LOWEST, ExactSums
from rechannel.kernels.columnar.groups import Groups

SUMS = ExactSums()


def groups(*sizes: int) -> Groups:
    return Groups((np.cumsum(sizes) - sizes).astype(np.int64), sum(sizes))


def partial(*values: float) -> Columns:
    return SUMS.partial(np.array(values), None, groups(len(values)))


def value(states: Columns) -> float:
    mantissas, exponents = SUMS.sums(states)
    return float(np.ldexp(mantissas, exponents)[0])


def test_cancellation_leaves_what_is_left():
    assert value(partial(1e16, 1.0, -1e16)) == 1.0
    assert value(partial(0.1, 0.2, -0.3)) == math.fsum([0.1, 0.2, -0.3])
    assert value(partial(1e308, 1e308, -1e308)) == 1e308


def test_what_lies_far_below_the_largest_value_is_dropped():
    assert value(partial(1e300, 1.0, -1e300)) == 0.0


def test_zeros_and_no_values_are_table_key():
    zeros = partial(0.0, -0.0)
    assert zeros[0].to_pylist() == [LOWEST]
    nothing = SUMS.partial(np.array([5.0]), np.array([False]), groups(1))
    assert nothing[0].to_pylist() == [EMPTY]
    assert SUMS.empty(zeros).tolist() == [False]
    assert SUMS.empty(nothing).tolist() == [True]
    assert math.copysign(1.0, value(zeros)) == 1.0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, math.inf], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, math.inf], math.nan),
    ],
)
def test_values_that_are_not_finite(values: list[float], expected: float):
    got = value(partial(*values))
    assert got == expected or (math.isnan(got) and math.isnan(expected))


def test_the_extremes_of_the_doubles():
    tiny, huge = 5e-324, 1.7976931348623157e308
    assert value(partial(tiny, tiny)) == 2 * tiny
    assert value(partial(huge)) == huge
    with np.errstate(over="ignore"):
        assert value(partial(huge, huge)) == math.inf
    assert value(partial(huge, huge, -huge)) == huge


def test_there_is_room_for_as_many_additions_as_promised():
    full = math.nextafter(2.0**26, 0)  # every bit of its bins is set
    state = partial(full)
    additions = 2**36
    grown = [*state[:2], *(pa.array(bin_.to_numpy() * additions) for bin_ in state[2:])]
    assert value(grown) == full * 2.0**36
    one_more = SUMS.merge_pair(grown, state, np.array([True]))
    assert value(one_more) == math.fsum([full * 2.0**36, full])


def test_old_state_that_was_not_found_is_not_read():
    old = [pa.array([1], pa.int8()), pa.array([7], pa.uint8()), *[pa.array([2**62])] * 4]
    assert value(SUMS.merge_pair(old, partial(3.0), np.array([False]))) == 3.0
    nothing = SUMS.partial(np.array([0.0]), np.array([False]), groups(1))
    assert value(SUMS.merge_pair(old, nothing, np.array([False]))) == 0.0


def test_no_rows():
    states = SUMS.partial(np.zeros(0), None, groups())
    assert [len(column) for column in states] == [0] * 6
    assert SUMS.sums(states)[0].size == 0


def test_a_window_must_hold_a_double():
    with pytest.raises(ValueError, match="at least 4 bins"):
        ExactSums(sum_bins=3)


def test_long_integers_agree_with_python():
    rng = np.random.default_rng(3)
    left, right = (
        [rng.integers(-(2**60), 2**60, 50), *rng.integers(-(2**60), 2**60, (3, 50))]
        for _ in range(2)
    )

    def whole(number: list[np.ndarray]) -> list[int]:
        columns = zip(*(digit.tolist() for digit in number), strict=True)
        return [sum(d << 26 * i for i, d in enumerate(reversed(column))) for column in columns]

    one, other = digits.carried(left, more=2), digits.carried(right, more=2)
    assert whole(one) == whole(left)
    assert all(((digit >= 0) & (digit < 2**26)).all() for digit in one[1:])
    assert (abs(one[0]) < 2**26).all()
    products = whole(digits.product(one, other))
    assert products == [a * b for a, b in zip(whole(left), whole(right), strict=True)]
    shorter = digits.difference(one, other[:-1])
    assert len(shorter) == len(one)
    assert whole(shorter) == [
        a - (b - d) for a, b, d in zip(whole(left), whole(right), other[-1].tolist(), strict=True)
    ]
    assert digits.to_double(one, unit=5).tolist() == [float(number) for number in whole(left)]
