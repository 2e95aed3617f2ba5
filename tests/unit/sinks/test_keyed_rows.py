"""Rows of which a place keeps one per key."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.errors import DataflowError, RefusedError
from rechannel.sinks.keyed_rows import check_keys, check_no_nulls, latest, named

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def test_the_last_row_of_a_key_remains():
    rows = pa.table({"k": ["a", "b", "a", "c", "b"], "n": [1, 2, 3, 4, 5]}, schema=SCHEMA)
    assert latest(rows, ["k"]).to_pydict() == {"k": ["a", "c", "b"], "n": [3, 4, 5]}
    assert latest(rows, ["k", "n"]) is rows


def test_names_of_columns():
    assert named("k") == ("k",)
    assert named(["k", "n"]) == ("k", "n")
    check_keys(["k"], SCHEMA, "out")
    with pytest.raises(DataflowError, match=r"sink 'out': there is no column 'x'; there are k, n"):
        check_keys(["x"], SCHEMA, "out")
    with pytest.raises(DataflowError, match="a column is named twice: k, k"):
        check_keys(["k", "k"], SCHEMA, "out")


def test_a_row_without_a_key_is_refused():
    rows = pa.table({"k": ["a", None], "n": [None, 1]}, schema=SCHEMA)
    check_no_nulls(rows, [], "there")
    with pytest.raises(RefusedError, match="there is written by k, and a row has no 'k'"):
        check_no_nulls(rows, ["k"], "there")
