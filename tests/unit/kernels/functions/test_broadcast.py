"""The table of a broadcast input as a mapping."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from rechannel.kernels.functions.broadcast import BroadcastTable


def table(keys, **columns):
    return BroadcastTable(pa.record_batch(columns), keys)


def test_rows_are_found_by_their_key_and_come_in_the_order_of_keys():
    found = table(1, k=["b", None, "a"], v=[1, 2, 3])

    assert list(found) == ["a", "b", None]
    assert found.rows.to_pydict() == {"k": ["a", "b", None], "v": [3, 1, 2]}
    assert (found["a"].k, found["a"].v, found[None].v) == ("a", 3, 2)
    assert [row.v for row in found.values()] == [3, 1, 2]
    assert ("a" in found, "x" in found, found.get("x"), len(found)) == (True, False, None, 3)
    with pytest.raises(KeyError, match="'x'"):
        _ = found["x"]
    assert repr(found) == "<BroadcastTable: 3 rows of k, v>"


def test_a_key_of_several_columns_is_a_tuple():
    found = table(2, k=["b", "a", "a"], n=[1, 2, 1], v=[True, None, False])

    assert list(found) == [("a", 1), ("a", 2), ("b", 1)]
    assert found["a", 2] == ("a", 2, None)


def test_numbers_are_in_their_order_and_nan_comes_after_them():
    (*numbers, last) = table(1, k=[math.nan, 2.5, -1.0], v=[1, 2, 3])

    assert numbers == [-1.0, 2.5]
    assert math.isnan(last)


def test_keys_without_an_order_stay_as_they_are():
    found = table(1, k=[[2], [1]], v=[1, 2])
    assert found.rows.column("v").to_pylist() == [1, 2]
    with pytest.raises(TypeError, match=r"of k they cannot be \(unhashable type: 'list'\)"):
        found.get("x")


def test_a_table_without_rows_has_its_columns():
    found = BroadcastTable(pa.RecordBatch.from_pylist([], pa.schema([("k", pa.int8())])), 1)
    assert (dict(found), found.rows.schema.names, found.nbytes) == ({}, ["k"], 0)
