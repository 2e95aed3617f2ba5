from __future__ import annotations

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.engine.replay.comparing import difference, examples, row_hashes

VALUES = st.sampled_from([None, 0, 1, 2])
TEXTS = st.sampled_from([None, "", "a", "b"])
NESTED = st.sampled_from([None, [], [None], [1], [None, 1], [1, None]])
ROWS = st.lists(st.tuples(VALUES, TEXTS, NESTED), max_size=12)
SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.string()), ("l", pa.list_(pa.int64()))])


def table(rows: list[tuple]) -> pa.Table:
    names = SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], SCHEMA)


def bag(found: pa.Table) -> Counter[str]:
    return Counter(map(repr, found.to_pylist()))


@given(ROWS, ROWS)
def test_the_difference_is_that_of_two_bags(left, right):
    one, other = table(left), table(right)
    found = difference(one, other)
    assert bag(found.left) == bag(one) - bag(other)
    assert bag(found.right) == bag(other) - bag(one)
    assert found.equal == (bag(one) & bag(other)).total()


def test_the_order_of_rows_does_not_matter_and_their_number_does():
    one = pa.table({"n": [1, 2, 2, 3]})
    found = difference(one, pa.table({"n": [3, 2, 1, 1]}))
    assert (found.equal, found.left["n"].to_pylist(), found.right["n"].to_pylist()) == (3, [2], [1])


def test_nulls_in_other_columns_make_other_rows():
    one = pa.table({"a": ["x"], "b": pa.array([None], pa.string()), "c": ["y"]})
    other = pa.table({"a": ["x"], "b": ["y"], "c": pa.array([None], pa.string())})
    assert row_hashes(one) != row_hashes(other)
    assert difference(one, other).equal == 0


def test_values_are_equal_as_keys_are():
    one = pa.table({"x": [math.nan, 0.0], "y": [1, 2]})
    other = pa.table({"x": [math.nan, -0.0], "y": [1, 2]})
    assert difference(one, other).equal == 2


def test_types_that_cannot_be_keys_are_compared_by_their_text():
    kind = pa.month_day_nano_interval()
    one = pa.table({"i": pa.array([(1, 2, 3), None], kind)})
    other = pa.table({"i": pa.array([(1, 2, 4), None], kind)})
    found = difference(one, other)
    assert (found.equal, found.left.num_rows, found.right.num_rows) == (1, 1, 1)


def test_other_columns_make_all_rows_different():
    found = difference(pa.table({"a": [1]}), pa.table({"b": [1]}))
    assert (found.equal, found.left.num_rows, found.right.num_rows) == (0, 1, 1)


def test_tables_without_rows_or_columns():
    assert difference(table([]), table([])).equal == 0
    assert difference(table([]), table([(1, "a", None)])).right.num_rows == 1
    assert len(row_hashes(pa.table({}))) == 0


@pytest.mark.parametrize(("most", "most_bytes", "found"), [(2, 1 << 20, 2), (9, 1, 1), (0, 9, 0)])
def test_examples_are_bounded_by_number_and_bytes(most, most_bytes, found):
    rows = pa.table({"text": ["x" * 100] * 5})
    assert len(examples(rows, most, most_bytes)) == found
