"""Sorting by hash and grouping, colliding hashes included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.columnar.sorting import (
    Ordered,
    Stacked,
    fast_take,
    from_numpy,
    group_rows,
    is_plain,
    sort_index,
    take,
)
from rechannel.model.hashing import hash_columns


def u64(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def test_few_rows_are_sorted_without_ado():
    assert sort_index(u64()).tolist() == []
    assert sort_index(u64(9)).tolist() == [0]


def test_equal_hashes_keep_their_order():
    assert sort_index(u64(5, 3, 5, 3, 5)).tolist() == [1, 3, 0, 2, 4]


def test_hashes_that_differ_only_where_the_row_number_is_packed_are_sorted():
    assert sort_index(u64(7, 6, 5, 4)).tolist() == [3, 2, 1, 0]


def test_the_largest_hashes_do_not_overflow():
    top = 2**64 - 1
    assert sort_index(u64(top, 0, top - 1)).tolist() == [1, 2, 0]


def test_taking_keeps_types_and_nulls():
    columns = [
        pa.array([1, 2, 3], pa.int32()),
        pa.array([1.5, None, 3.5]),
        pa.array(["a", "b", None]),
        pa.array([True, False, None]),
    ]
    taken = take(columns, np.array([2, 0]))
    assert [column.to_pylist() for column in taken] == [
        [3, 1],
        [3.5, 1.5],
        [None, "a"],
        [None, True],
    ]
    assert [column.type for column in taken] == [column.type for column in columns]


def test_a_slice_is_taken_from_where_it_starts():
    column = pa.array(range(10), pa.int64()).slice(4, 3)
    assert fast_take(column, np.array([2, 0])).to_pylist() == [6, 4]


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.int8(), True),
        (pa.uint64(), True),
        (pa.float32(), True),
        (pa.float64(), True),
        (pa.float16(), False),
        (pa.bool_(), False),
        (pa.string(), False),
        (pa.date32(), False),
    ],
)
def test_plain_types_are_those_numpy_holds_in_the_same_bytes(kind: pa.DataType, plain: bool):
    assert is_plain(kind) is plain


def test_numpy_arrays_are_wrapped_as_they_are():
    array = from_numpy(np.array([1, 2], dtype=np.int16), pa.int16())
    assert array.equals(pa.array([1, 2], pa.int16()))


def test_no_rows_make_no_groups():
    groups, order = group_rows(u64(), [pa.array([], pa.int64())])
    assert (groups.count, groups.rows, order) == (0, 0, None)
    assert groups.ends.tolist() == groups.sizes.tolist() == groups.ids.tolist() == []


def test_neighbours_of_one_key_are_a_group():
    keys = pa.array(["a", "a", "b"])
    groups, order = group_rows(u64(1, 1, 2), [keys])
    assert groups.starts.tolist() == [0, 2]
    assert groups.ends.tolist() == [2, 3]
    assert groups.ids.tolist() == [0, 0, 1]
    assert order is None


def test_keys_that_share_a_hash_are_sorted_out_and_keep_the_order_of_their_rows():
    keys = pa.array(["b", "a", "b", "a", "c"])
    groups, order = group_rows(u64(1, 1, 1, 1, 2), [keys])
    assert order is not None
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert groups.starts.tolist() == [0, 2, 4]


def test_the_order_of_keys_of_one_hash_does_not_depend_on_which_came_first():
    shared = u64(4, 4, 4)
    for rows in (["x", "y", None], [None, "y", "x"], ["y", "x", None]):
        _, order = group_rows(shared, [pa.array(rows)])
        assert order is not None
        sorted_out = [rows[i] for i in order]
        assert sorted_out == [None, "x", "y"]


def test_keys_may_lie_in_another_order_than_the_sorted_rows():
    keys, order = pa.array(["b", "c", "a", "b", "a"]), np.array([0, 2, 3, 4, 1])
    hashes = u64(1, 1, 1, 1, 2)
    groups, untangled = group_rows(hashes, [keys], order=order)
    same, moved = group_rows(hashes, [keys.take(pa.array(order))])
    assert untangled is not None
    assert moved is not None
    assert untangled.tolist() == moved.tolist()
    assert groups.starts.tolist() == same.starts.tolist() == [0, 2, 4]
    groups, untangled = group_rows(u64(1, 1, 2, 2, 3), [keys], order=np.array([0, 3, 2, 4, 1]))
    assert groups.starts.tolist() == [0, 2, 4]
    assert untangled is None


def test_nulls_in_several_key_columns_do_collide():
    """A null leaves the hash as it is, so this is no matter of luck."""
    columns = [pa.array([1, 1]), pa.array([None, 2]), pa.array([2, None])]
    hashes = hash_columns(columns)
    assert hashes[0] == hashes[1]
    groups, order = group_rows(hashes, columns)
    assert groups.count == 2
    assert order is not None


def test_rows_that_lie_in_order_already_are_not_moved():
    hashes, minor = u64(3, 3, 5), np.array([1, 2, 0])
    assert sort_index(hashes, minor).tolist() == [0, 1, 2]
    assert sort_index(hashes, np.array([2, 1, 0])).tolist() == [1, 0, 2]
    assert sort_index(u64(3, 5, 3), np.array([1, 0, 0])).tolist() == [2, 0, 1]
    columns = [pa.array(["a", "b", "c"])]
    assert take(columns, np.array([0, 1, 2]))[0] is columns[0]
    assert take(columns, np.array([0, 2, 2]))[0].to_pylist() == ["a", "c", "c"]
    assert take(columns, np.array([0, 1]))[0].to_pylist() == ["a", "b"]


def test_columns_are_put_in_order_when_they_are_asked_for():
    ordered = Ordered([pa.array([1, 2]), pa.array(["a", "b"])], np.array([1, 0]))
    assert (len(ordered), ordered[1].to_pylist()) == (2, ["b", "a"])
    assert [column.to_pylist() for column in ordered] == [[2, 1], ["b", "a"]]


@pytest.mark.parametrize("rows", [[0, 1], [1, 0], [2, 4], [2, 3, 4], [4, 0, 2], []])
def test_columns_below_others_are_taken_from_as_if_they_were_one(rows):
    above, below = ["a", "b"], ["c", "d", "e"]
    stacked = Stacked(
        [pa.array(above), pa.array([1, 2])], [pa.array(below), pa.array([3, 4, 5])], 2
    )
    assert stacked[0].to_pylist() == above + below
    found = stacked.take(np.array(rows, dtype=np.int64))
    assert [c.to_pylist() for c in found] == [
        [(above + below)[i] for i in rows],
        [i + 1 for i in rows],
    ]
    assert stacked.take(np.array(rows, dtype=np.int64), [1])[0].to_pylist() == [i + 1 for i in rows]


def test_nothing_above_leaves_what_is_below():
    below = [pa.array(["c", "d"])]
    stacked = Stacked([pa.array([], pa.string())], below, 0)
    assert stacked[0] is below[0]
    assert stacked.take(np.array([0, 1]))[0] is below[0]
