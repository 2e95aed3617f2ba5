"""Runs of a dataset with keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.sinks.dataset.keyed import GONE, TIMESTEP, counting, merged_runs, run_of, run_schema

SCHEMA = pa.schema(
    [("a", pa.string()), ("b", pa.int64()), ("n", pa.int64()), ("change", pa.string())]
)
KEYS = ("a", "b")


def run(timestep: int, *rows: tuple) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * 4
    table = pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return run_of(table, KEYS, "change", timestep, "here")


def batches(table: pa.Table, size: int):
    return iter(table.combine_chunks().to_batches(max_chunksize=size))


def test_a_run_has_a_row_per_key_in_the_order_of_keys_and_says_which_are_gone():
    made = run(
        7,
        ("b", 1, 5, "insert"),
        ("a", 2, 1, "update_before"),
        ("a", 2, 2, "update_after"),
        ("a", 1, 9, "delete"),
    )
    assert made.to_pylist() == [
        {"a": "a", "b": 1, "n": 9, TIMESTEP: 7, GONE: True},
        {"a": "a", "b": 2, "n": 2, TIMESTEP: 7, GONE: False},
        {"a": "b", "b": 1, "n": 5, TIMESTEP: 7, GONE: False},
    ]
    assert made.schema.equals(run_schema(SCHEMA.remove(3)))


def test_rows_without_a_key_are_refused():
    with pytest.raises(RefusedError, match="a row has no 'a'"):
        run(1, (None, 1, 1, "insert"))


words = st.sampled_from(["insert", "update_after", "delete"])
row = st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 99), words)


@given(
    steps=st.lists(st.lists(row, max_size=8, unique_by=lambda r: r[:2]), min_size=1, max_size=5),
    size=st.integers(1, 4),
    drop=st.booleans(),
)
def test_merged_runs_are_what_a_dict_says(steps, size, drop):
    runs = [run(timestep, *rows) for timestep, rows in enumerate(steps)]
    twin = {}
    for timestep, rows in enumerate(steps):
        for a, b, n, change in rows:
            twin[a, b] = (n, timestep, change == "delete")
    merged = list(merged_runs([batches(each, size) for each in runs], KEYS, drop=drop))
    found = [tuple(each.values()) for batch in merged for each in batch.to_pylist()]
    assert found == [
        (*key, *value) for key, value in sorted(twin.items()) if not (drop and value[2])
    ]
    rows = counting(pa.concat_tables(runs), KEYS).to_pylist()
    assert {(r["a"], r["b"]): r["n"] for r in rows} == {
        key: n for key, (n, _, gone) in twin.items() if not gone
    }
    assert len(rows) == sum(not gone for _, _, gone in twin.values())


@pytest.mark.parametrize(
    "values",
    [
        [Decimal("1.10"), Decimal("-2.00"), Decimal("3.33")],
        [dt.date(2026, 1, 2), dt.date(1960, 1, 1), dt.date(2026, 1, 1)],
        [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
        pa.array([1_001, 2, -1], pa.timestamp("ns")),
        pa.array([1_001, 2, 1], pa.duration("ns")),
        [b"\xff", b"", b"a"],
        ["ä", "a", "z", ""],
        [True, False],
        [1.5, float("nan"), -0.5, float("inf")],
    ],
)
def test_keys_of_every_type_are_merged(values):
    tables = [
        run_of(
            pa.table(
                {"k": pa.array(values), "n": [t] * len(values), "m": [{"x": t}] * len(values)}
            ),
            ("k",),
            "",
            t,
            "x",
        )
        for t in range(3)
    ]
    merged = pa.Table.from_batches(
        merged_runs([batches(each, 1) for each in tables], ("k",), drop=True)
    )
    assert merged.num_rows == len(values)
    assert merged["n"].to_pylist() == [2] * len(values)
    assert merged["m"].to_pylist() == [{"x": 2}] * len(values)
