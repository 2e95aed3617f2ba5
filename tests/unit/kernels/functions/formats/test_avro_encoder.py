"""Rows as records of Avro: the bytes that fastavro writes, and dead letters for what it refuses."""

from __future__ import annotations

import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.avro import encoder as writing
from rechannel.kernels.functions.formats.avro.encoder import AvroEncoder, _shape
from tests.unit.kernels.functions.formats.avro_cases import field, logical, record, schemas, written


def encoder(schema):
    return AvroEncoder(schema=json.dumps(schema), record="Record")


@given(schemas())
def test_bytes_are_those_of_fastavro(case):
    schema, rows = case
    expected = [written(schema, row) for row in rows]
    columns = rc.formats.avro(schema).parsed(pa.array(expected, pa.binary())).rows
    of = encoder(schema)
    assert _shape(of.schema, columns.schema) is not None, "it is written one by one anyway"
    made = of.encoded(columns)
    assert made.errors == {}
    assert made.values.to_pylist() == expected
    again = of.encoded(pa.concat_batches([columns, columns]).slice(1))
    assert again.values.to_pylist() == [*expected, *expected][1:], "rows alone decide"


@given(schemas(), st.data())
def test_nulls_where_none_may_be_harm_no_other_row(case, data):
    schema, rows = case
    holes = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True, max_size=3))
    name = data.draw(st.sampled_from([each["name"] for each in schema["fields"]]))
    good = [written(schema, row) for row in rows]
    columns = rc.formats.avro(schema).parsed(pa.array(good, pa.binary())).rows
    at = columns.schema.get_field_index(name)
    mask = pa.array([place in holes for place in range(len(rows))])
    column = pa.array(
        [
            None if place in holes else each
            for place, each in enumerate(columns.column(at).to_pylist())
        ],
        columns.column(at).type,
    )
    made = encoder(schema).encoded(columns.set_column(at, columns.schema.field(at), column))
    nullable = isinstance(schema["fields"][at]["type"], list)
    assert set(made.errors) == (set() if nullable else set(holes))
    kept = [value for place, value in enumerate(good) if not mask[place].as_py()]
    found = made.values.to_pylist()
    if not nullable:
        assert found == kept
    else:
        assert [each for place, each in enumerate(found) if place not in holes] == kept


def parsed(schema, value):
    return fastavro.schemaless_reader(
        io.BytesIO(value), fastavro.parse_schema(json.loads(json.dumps(schema))), None
    )


@pytest.mark.parametrize("size", [0, 5, 16])
def test_decimals_have_the_fewest_bytes(size):
    kind = {"type": "fixed", "name": "D", "size": size} if size else {"type": "bytes"}
    digits = 11 if size == 5 else 38
    schema = record(
        [field("x", {**kind, "logicalType": "decimal", "precision": digits, "scale": 2})]
    )
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, -(2**31), 2**36]
    if size != 5:
        numbers += [2**63, -(2**63), 2**64, -(2**64) - 1, 10**38 - 1, -(10**38) + 1]
    values = [Decimal(f"{number}E-2") for number in numbers]
    rows = pa.record_batch({"x": pa.array(values, pa.decimal128(digits, 2))})
    made = encoder(schema).encoded(rows)
    assert made.errors == {}
    assert made.values.to_pylist() == [written(schema, {"x": each}) for each in values]


def test_columns_are_widened_and_times_are_rounded_down():
    schema = record(
        [
            field("i", "long"), field("f", "double"), field("n", "double"), field("s", "string"),
            field("ms", logical("long", "timestamp-millis")), field("us", logical("long", "timestamp-micros")),
            field("ns", logical("long", "timestamp-micros")),
            field("d", logical("bytes", "decimal", precision=20, scale=2)),
            field("fix", {"type": "fixed", "name": "F", "size": 2}), field("later", "long", default=3),
        ]
    )  # fmt: skip
    rows = pa.record_batch(
        {
            "i": pa.array([-3], pa.int8()), "f": pa.array([0.5], pa.float32()), "n": pa.array([7], pa.uint32()),
            "s": pa.array(["ü"], pa.large_string()), "ms": pa.array([-1_001], pa.timestamp("us", "Europe/Berlin")),
            "us": pa.array([-2], pa.timestamp("s", "UTC")), "ns": pa.array([-1_001], pa.timestamp("ns", "UTC")),
            "d": pa.array([Decimal("1.25")], pa.decimal128(5, 2)), "fix": pa.array([b"ab"], pa.binary(2)),
        }
    )  # fmt: skip
    made = encoder(schema).encoded(rows)
    assert made.errors == {}
    plain = record(
        [
            {**each, "type": "long" if each["name"] in ("ms", "us", "ns") else each["type"]}
            for each in schema["fields"]
        ]
    )
    row = parsed(plain, made.values[0].as_py())
    assert row == {
        "i": -3, "f": 0.5, "n": 7.0, "s": "ü", "ms": -2, "us": -2_000_000, "ns": -2, "d": Decimal("1.25"),
        "fix": b"ab", "later": 3,
    }  # fmt: skip


def test_what_a_field_cannot_hold_is_named():
    schema = record(
        [
            field("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
            field("f", {"type": "fixed", "name": "F", "size": 2}),
            field("t", logical("long", "timestamp-micros")),
        ]
    )  # fmt: skip
    rows = pa.record_batch(
        {
            "e": ["A", "B", "A", "A", "A"],
            "f": pa.array([b"ab", b"ab", b"abc", b"ab", None]),
            "t": pa.array([1, 1, 1, 2**62, 1], pa.timestamp("s", "UTC")),
        }
    )
    made = encoder(schema).encoded(rows)
    assert len(made.values) == 1
    words = {
        1: "field e is not one of the symbols",
        2: "field f does not have 2 bytes",
        3: "field t is out of range",
        4: "field f is null",
    }
    assert {
        place: next(word for word in words.values() if word in error)
        for place, error in made.errors.items()
    } == words


NESTED = record(
    [
        field("a", ["null", {"type": "array", "items": ["null", "long"]}]),
        field("m", {"type": "map", "values": {"type": "map", "values": "int"}}),
        field("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
    ]
)


def test_arrays_and_maps_are_written_one_by_one():
    rows = [{"a": [1, None], "m": {"k": {"x": 1}}, "e": "A"}, {"a": None, "m": {}, "e": "A"}]
    columns = rc.formats.avro(NESTED).parsed(pa.array([written(NESTED, row) for row in rows])).rows
    of = encoder(NESTED)
    assert _shape(of.schema, columns.schema) is None
    assert of.encoded(columns).values.to_pylist() == [written(NESTED, row) for row in rows]
    bad = columns.set_column(2, "e", pa.array(["B", "A"]))
    made = of.encoded(bad)
    assert made.values.to_pylist() == [written(NESTED, rows[1])]
    assert set(made.errors) == {0}


ITEMS = field("a", {"type": "array", "items": "boolean"})
FLAG = {"type": "record", "name": "G", "fields": [field("b", "boolean")]}


def test_nulls_where_none_may_be_are_found_in_arrays_and_beside_them():
    schema = record(
        [
            ITEMS, field("b", "boolean"), field("n", ["null", "boolean"]), field("r", ["null", FLAG]),
            field("m", {"type": "map", "values": "G"}),
        ]
    )  # fmt: skip
    good = {"a": [True], "b": False, "n": None, "r": {"b": True}, "m": {"k": {"b": False}}}
    bad = [
        (good | {"b": None}, "field b is null"),
        (good | {"a": [True, None]}, "field a[] is null"),
        (good | {"a": None}, "field a is null"),
        (good | {"r": {"b": None}}, "field r.b is null"),
        (good | {"m": {"k": {"b": None}}}, "field m{}.b is null"),
        (good | {"m": {"k": None}}, "field m{} is null"),
    ]
    flag = pa.struct([("b", pa.bool_())])
    columns = pa.schema(
        [
            ("a", pa.list_(pa.bool_())), ("b", pa.bool_()), ("n", pa.bool_()), ("r", flag),
            ("m", pa.map_(pa.string(), flag)),
        ]
    )  # fmt: skip
    rows = [good, *(row for row, _ in bad), good | {"r": None, "n": True}]
    taken = [row | {"m": list(row["m"].items())} for row in rows]
    made = encoder(schema).encoded(pa.RecordBatch.from_pylist(taken, columns))
    assert made.values.to_pylist() == [written(schema, row) for row in (rows[0], rows[-1])]
    assert set(made.errors) == set(range(1, len(bad) + 1))
    for place, (_, words) in enumerate(bad, 1):
        assert words in made.errors[place]


def test_members_without_a_value_are_refused_in_arrays_too():
    schema = record([field("a", {"type": "array", "items": FLAG})])
    columns = pa.schema([("a", pa.list_(pa.struct([])))])
    with pytest.raises(DataflowError, match=r"field a\[\]\.b has no column and no default"):
        encoder(schema).check(columns)


@pytest.mark.parametrize(
    ("kind", "of", "far"),
    [
        (logical("long", "timestamp-micros"), pa.timestamp("us", "UTC"), 2**60),
        (logical("int", "date"), pa.date32(), 2**31 - 1),
    ],
)
def test_a_time_that_python_does_not_have_harms_no_other_row(kind, of, far):
    rows = pa.record_batch(
        {"a": pa.array([[True]] * 3, pa.list_(pa.bool_())), "t": pa.array([1, far, 2], of)}
    )
    made = encoder(record([ITEMS, field("t", kind)])).encoded(rows)
    good = rows.take(pa.array([0, 2])).to_pylist()
    assert made.values.to_pylist() == [
        written(record([ITEMS, field("t", kind)]), row) for row in good
    ]
    assert set(made.errors) == {1}


def test_many_rows_are_written_in_pieces(monkeypatch):
    monkeypatch.setattr(writing, "ROWS", 7)
    schema = record([field("n", "long"), field("s", ["null", "string"])])
    rows = [{"n": None if n == 20 else n, "s": "x" * (n % 5) if n % 3 else None} for n in range(50)]
    columns = pa.RecordBatch.from_pylist(rows, pa.schema([("n", pa.int64()), ("s", pa.string())]))
    made = encoder(schema).encoded(columns)
    assert set(made.errors) == {20}
    assert made.values.to_pylist() == [written(schema, row) for row in rows if row["n"] is not None]
    assert encoder(schema).encoded(columns.slice(0, 0)).values.to_pylist() == []
