"""Frames of whole groups: keys without rows, and answers in any order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rechannel.operators.window.group_frame import GroupFrame, call

FRAME = GroupFrame(
    keys=pa.record_batch({"k": ["a", "b", "c", "d"]}),
    rows=pa.record_batch(
        {
            "n": pa.array([3, None, 5, 7]),
            "x": [0.5, 1.5, -1.0, 2.0],
            "s": ["p", "q", None, "r"],
            "yes": [True, False, True, True],
        }
    ),
    sizes=np.array([0, 3, 0, 1]),
)


def test_keys_without_rows_are_in_their_places():
    assert FRAME.starts.tolist() == [0, 0, 3, 3]
    assert FRAME.ids.tolist() == [1, 1, 1, 3]
    assert FRAME.count().tolist() == [0, 3, 0, 1]
    assert FRAME.count("n").tolist() == [0, 2, 0, 1]
    assert FRAME.sum("n").tolist() == [0, 8, 0, 7]
    assert FRAME.sum("x").tolist() == [0, 1.0, 0, 2.0]
    assert FRAME.min("n", -1).tolist() == [-1, 3, -1, 7]
    assert FRAME.max("x", 0).tolist() == [0, 1.5, 0, 2.0]
    assert FRAME.first("s", "-").tolist() == ["-", "p", "-", "r"]
    assert FRAME.last("s", "-").tolist() == ["-", "-", "-", "r"]
    assert FRAME.to_polars().rows() == [
        ("b", 3, 0.5, "p", True, 1),
        ("b", None, 1.5, "q", False, 1),
        ("b", 5, -1.0, None, True, 1),
        ("d", 7, 2.0, "r", True, 3),
    ]


def test_without_a_default_there_is_nothing_where_there_are_no_rows():
    assert np.isnan(FRAME.max("n")).tolist() == [True, False, True, False]
    assert FRAME.first("s").tolist() == [None, "p", None, "r"]
    assert FRAME.first("yes").tolist() == [None, True, None, True]


@pytest.mark.parametrize("as_arrow", [False, True])
def test_rows_of_an_answer_are_put_in_the_order_of_keys_and_keep_that_of_their_own(as_arrow):
    made = {"_key": [3, 1, 0, 1], "v": [30, 11, 1, 12]}

    def function(frame):
        return pa.table(made) if as_arrow else made

    owners, columns = call(function, (FRAME,), pa.schema([("v", pa.int64())]))
    assert owners.tolist() == [0, 1, 1, 3]
    assert columns[0].to_pylist() == [1, 11, 12, 30]


def test_a_function_is_not_called_for_no_keys():
    nobody = GroupFrame(
        keys=FRAME.keys.slice(0, 0), rows=FRAME.rows.slice(0, 0), sizes=np.array([], dtype=np.int64)
    )
    owners, columns = call(lambda frame: 1 / 0, (nobody,), pa.schema([("v", pa.int64())]))
    assert len(owners) == len(columns[0]) == 0
