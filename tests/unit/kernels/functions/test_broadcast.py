"""The table of a broadcast input as a mapping."""

from __future__ import annotations

import gc
import math
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.kernels.functions.python_rows import UnheldError


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
    found = table(1, k=[None, [2], [1]], v=[0, 1, 2])
    assert found.rows.column("v").to_pylist() == [0, 1, 2]
    with pytest.raises(TypeError, match=r"those of k cannot be \(unhashable type: 'list'\)"):
        found.get("x")


def test_rows_are_the_same_however_many_were_looked_up_before():
    found = table(1, k=[f"k{99 - n}" for n in range(100)], v=list(range(100)))

    for _ in range(2):
        for n in range(100):
            assert found[f"k{99 - n}"] == (f"k{99 - n}", n)
    assert list(found.items())[:2] == [("k0", ("k0", 99)), ("k1", ("k1", 98))]
    with pytest.raises(KeyError, match="'x'"):
        _ = found["x"]


def test_a_row_that_python_cannot_represent_is_told_when_it_is_read():
    far = pa.array([2**62, 0, 0], pa.int64()).view(pa.timestamp("us"))
    found = table(1, k=["far", "a", "b"], at=far)

    for _ in range(2):
        with pytest.raises(UnheldError, match="column 'at' has a value that Python cannot"):
            _ = found["far"]
        assert found["a"].k == "a"
        assert list(found) == ["a", "b", "far"]  # all rows are converted now
    for read in (found.values, found.items):
        with pytest.raises(UnheldError, match="column 'at' has a value that Python cannot"):
            read()


def test_a_table_without_rows_has_its_columns():
    found = BroadcastTable(pa.RecordBatch.from_pylist([], pa.schema([("k", pa.int8())])), 1)
    assert (dict(found), found.rows.schema.names, found.nbytes) == ({}, ["k"], 0)


def test_values_in_a_row_cannot_be_changed():
    tags = pa.array([["x", "y"]], pa.list_(pa.string()))
    place = pa.array([{"at": [1, 2]}])
    table = BroadcastTable(pa.record_batch({"k": ["a"], "tags": tags, "place": place}), 1)
    for row in (table["a"], *table.values()):
        assert row.tags == ("x", "y")
        assert row.place["at"] == (1, 2)
        with pytest.raises(TypeError):
            row.place["at"] = (3,)


def deep(value: Any, seen: set[int]) -> int:
    """Return the bytes of a value and all that it refers to."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    return sys.getsizeof(value) + sum(deep(each, seen) for each in gc.get_referents(value))


@pytest.mark.parametrize(
    "value",
    [
        1 << 60,
        2.5,
        "x" * 9,
        "x" * 90 + "\U0001f600",
        b"xyz",
        datetime(2026, 1, 1, tzinfo=UTC),
        Decimal("1.5"),
        [],
        list(range(1_000, 1_020)),
        {"a": "x", "b": [{"c": None}, {"c": 1.5}]},
    ],
)
def test_values_that_were_converted_are_counted_and_rather_too_many_bytes(value):
    keys = [f"key {n}" for n in range(200)]
    found = table(1, k=keys, v=[value] * 200)
    before = found.held_bytes
    assert before == found.nbytes
    looked = found["key 1"]
    assert before + deep([looked], set()) < found.held_bytes
    assert before + deep(dict(found.items()), set()) < found.held_bytes
