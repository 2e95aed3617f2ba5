"""Columns in which all rows have one value."""

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.columnar.columns import uniform
from rechannel.kernels.columnar.sorting import fast_take

ALIKE = [
    pa.array([7, 7, 7]),
    pa.array(["spent"] * 3),
    pa.array(["", ""]),
    pa.array([b"x"]),
    pa.array([0, 7, 7, 0]).slice(1, 2),
    pa.array(["a", "spent", "spent", "b"]).slice(1, 2),
    pa.nulls(3, pa.int64()),
    pa.nulls(2, pa.struct([("n", pa.int64())])),
]
OTHERS = [
    pa.array([7, 8, 7]),
    pa.array(["ab", "abab", "ab"]),
    pa.array(["ab", "ba", "ab"]),
    pa.array(["aa", "a", "aaa", "aa"]),
    pa.array(["ab", "", "ab"]),
    pa.array([1, None, 1]),
    pa.array(["a", None]),
    pa.array([], pa.int64()).slice(0, 0).cast(pa.float64()),
    pa.array([1.0, 1.0]),
]


@pytest.mark.parametrize("column", ALIKE)
def test_all_rows_have_one_value(column: pa.Array) -> None:
    assert uniform(column)


@pytest.mark.parametrize("column", OTHERS[:7])
def test_rows_differ(column: pa.Array) -> None:
    assert not uniform(column)


def test_of_other_types_nothing_is_known() -> None:
    assert not uniform(pa.array([1.0, 1.0]))


@pytest.mark.parametrize(
    "column", [*ALIKE, *OTHERS, pa.array([{"n": 1, "s": "a"}, {"n": 2, "s": None}])]
)
def test_rows_are_gathered_as_arrow_does(column: pa.Array) -> None:
    order = np.arange(len(column), dtype=np.int64)[::-1].copy()
    taken = fast_take(column, order)
    assert taken.equals(column.take(pa.array(order)))
    assert taken.type == column.type
    taken.validate(full=True)
