"""Rows as JSON objects: the same as value by value."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.functions.formats.json import Json
from rechannel.kernels.functions.formats.json_objects import json_objects
from rechannel.kernels.functions.formats.json_values import text_of

SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("is it?", pa.bool_()),
        ('na"me', pa.string()),
        ("float", pa.float64()),
        ("bytes", pa.binary()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("money", pa.decimal128(12, 3)),
        ("list", pa.list_(pa.string())),
        ("small", pa.float32()),
        ("when", pa.timestamp("ms")),
        ("lists", pa.list_(pa.list_(pa.float64()))),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("tiny", pa.decimal128(12, 9)),
        ("inner", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)
VALUES = (
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.text(),
    st.floats(),
    st.binary(),
    st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2150, 1, 1)).map(  # noqa: DTZ001
        lambda at: at.replace(tzinfo=dt.UTC)
    ),
    st.dates(),
    st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n).scaleb(-3)),
    st.lists(st.none() | st.text(), max_size=2),
    st.floats(width=32),
    st.datetimes().map(lambda at: at.replace(microsecond=at.microsecond // 1_000 * 1_000)),
    st.lists(st.none() | st.lists(st.none() | st.floats(), max_size=2), max_size=2),
    st.dictionaries(st.text(), st.none() | st.integers(-5, 5), max_size=2).map(
        lambda of: list(of.items())
    ),
    st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n).scaleb(-9)),
    st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "b": st.none() | st.text()}),
)
ROWS = st.lists(st.tuples(*(st.none() | each for each in VALUES)), max_size=5)


@given(ROWS)
def test_objects_are_what_they_are_value_by_value(rows):
    named = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(named, SCHEMA)
    kind = pa.struct(list(SCHEMA))
    made = json_objects(batch).to_pylist()
    assert made == [text_of(row, kind) for row in batch.to_pylist()]
    for text, row in zip(made, named, strict=True):
        assert json.loads(text).keys() == {name for name, value in row.items() if value is not None}


@given(ROWS)
def test_objects_are_read_back(rows):
    schema = pa.schema([field for field in SCHEMA if not pa.types.is_map(field.type)])
    named = [dict(zip(SCHEMA.names, map(finite, row), strict=True)) for row in rows]
    batch = pa.RecordBatch.from_pylist(named, schema)
    found = Json(schema=schema).parsed(json_objects(batch))
    assert not found.errors
    assert found.rows.to_pylist() == batch.to_pylist()


def finite(value: object) -> object:
    """Return a value without the numbers that are texts in JSON, such as NaN."""
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def test_texts_with_characters_that_have_an_escape():
    batch = pa.record_batch({"t": ['a"b\\c', "line\nbreak", "tab\t", "", None, "ü🚀"]})
    assert [json.loads(text).get("t") for text in json_objects(batch).to_pylist()] == [
        'a"b\\c', "line\nbreak", "tab\t", "", None, "ü🚀",
    ]  # fmt: skip


def test_rows_without_columns_and_columns_without_rows():
    nothing = pa.RecordBatch.from_pylist([{}, {}], pa.schema([]))
    assert json_objects(nothing).to_pylist() == ["{}"] * nothing.num_rows
    assert json_objects(pa.RecordBatch.from_pylist([], SCHEMA)).to_pylist() == []
