"""Rows that a function made, as columns; what was also kept is not converted again."""

from __future__ import annotations

from collections import namedtuple

import pyarrow as pa
import pytest

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.emitted import Emitted, rows_in

FIELDS = pa.schema([("n", pa.int64()), ("total", pa.float64())])


def emitted(rows, fields=FIELDS):
    return Emitted.of(rows, fields, "f", lambda row: f"row {row}")


def test_tuples_dicts_and_single_values_become_columns():
    pair = namedtuple("pair", "n total")
    for rows in ([(1, 2.0), pair(3, 4.0)], [{"total": 2.0, "n": 1}, (3, 4.0)]):
        assert [column.to_pylist() for column in emitted(rows).columns] == [[1, 3], [2.0, 4.0]]
    (column,) = emitted([5, (6,)], pa.schema([("n", pa.int64())])).columns
    assert column.to_pylist() == [5, 6]


def test_a_row_with_too_few_values_is_named():
    with pytest.raises(
        UserFunctionError, match=r"row 1: expected a tuple of 2 values \(n, total\)"
    ):
        emitted([(1, 2.0), (3,)])


def test_the_very_tuples_that_were_emitted_are_known():
    rows = [(1, 2.0), (3, 4.0)]
    made = emitted(rows)
    assert made.known(list(rows), list(FIELDS)) is made.columns


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ([(1, 2.0), (3, float("4"))], FIELDS),  # equal, but not the same
        ([(1, 2.0)], FIELDS),
        ([], FIELDS),
        (None, pa.schema([("n", pa.int64()), ("total", pa.float32())])),
    ],
)
def test_others_are_not(values, fields):
    rows = [(1, 2.0), (3, 4.0)]
    assert emitted(rows).known(rows if values is None else values, list(fields)) is None


def test_a_dict_is_a_row_but_not_a_value_of_several_columns():
    rows = [{"n": 1, "total": 2.0}]
    assert emitted(rows).known(rows, list(FIELDS)) is None


def test_a_single_row_is_not_taken_for_rows():
    assert list(rows_in((1, 2))) == [1, 2]
    for made in ("ab", b"ab", {"n": 1}, 5):
        with pytest.raises(TypeError, match="yield rows, or return a list of them"):
            rows_in(made)
