"""Records of Avro that are read all at once: the same as fastavro reads one by one, whatever the bytes are."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.kernels.functions.formats.avro import reader as reading
from rechannel.kernels.functions.formats.avro.format import _reader, _writer
from rechannel.kernels.functions.formats.avro.nodes import no_texts
from rechannel.kernels.functions.formats.registry import Written
from tests.unit.kernels.functions.formats.avro_cases import field, logical, record, schemas, written


@st.composite
def harmed(draw, values):
    """Values, some of them cut, longer, changed or noise."""
    made = []
    for value in values:
        how = draw(st.sampled_from(["", "", "cut", "more", "other", "noise"]))
        at = draw(st.integers(0, max(len(value) - 1, 0)))
        if how == "cut":
            value = value[:at]  # noqa: PLW2901
        elif how == "more":
            value += draw(st.binary(min_size=1, max_size=3))  # noqa: PLW2901
        elif how == "other" and value:
            value = value[:at] + bytes([draw(st.integers(0, 255))]) + value[at + 1 :]  # noqa: PLW2901
        elif how == "noise":
            value = draw(st.binary(max_size=24))  # noqa: PLW2901
        made.append(value)
    return made


def alike(reader, writer, values, head=0):
    """Compare what is read together with what is read one by one; returns the former."""
    assert reading._plan(writer, reader) is not None, "it is read one by one anyway"
    array = pa.array(values, pa.binary())
    found, expected = reader.read(array, writer, head), reader._one_by_one(array, writer, head)
    assert found.errors == expected.errors
    assert found.rows.schema == expected.rows.schema
    assert found.rows.to_pylist() == expected.rows.to_pylist()
    found.rows.validate(full=True)
    return found


@given(st.data())
def test_together_is_one_by_one(data):
    schema, rows = data.draw(schemas())
    reader = _reader(json.dumps(schema))
    good = [written(schema, row) for row in rows]
    assert alike(reader, reader.itself, good).errors == {}
    alike(reader, reader.itself, data.draw(harmed(good)))


@given(st.data())
def test_versions_of_a_schema_are_read_alike(data):
    schema, rows = data.draw(schemas(least=2))
    kept = data.draw(st.permutations(schema["fields"]))[: data.draw(st.integers(1, 4))]
    wider = {
        "int": ["int", "long", "double"],
        "string": ["string", "bytes"],
        "float": ["float", "double"],
    }
    fields = [
        {**each, "type": data.draw(st.sampled_from(wider.get(each["type"], [each["type"]])))}
        if isinstance(each["type"], str)
        else each
        for each in kept
    ]
    more = [
        field("more", "long", default=7),
        field("other", ["null", "string"], default=None),
        field("text", "string", default="x"),
    ]
    theirs = record(
        [*fields, *data.draw(st.lists(st.sampled_from(more), unique_by=lambda f: f["name"]))]
    )
    reader = _reader(json.dumps(theirs))
    writer = _writer.__wrapped__(1, Written(kind="AVRO", text=json.dumps(schema)))
    good = [b"\0head" + written(schema, row) for row in rows]
    alike(reader, writer, good, 6)
    alike(reader, writer, [b"\0head" + each[6:] for each in data.draw(harmed(good))], 6)


@pytest.mark.parametrize(
    "kind", ["long", "int", logical("long", "timestamp-millis"), ["null", "string"]]
)
@given(st.lists(st.binary(max_size=12), min_size=1, max_size=8))
def test_any_bytes(kind, values):
    reader = _reader(json.dumps(record([field("x", kind)])))
    alike(reader, reader.itself, values)


@pytest.mark.parametrize(
    "value",
    [
        b"\x80\x00",  # 0 in two bytes
        b"\xff" * 9 + b"\x01",  # the least number
        b"\xfe" + b"\xff" * 8 + b"\x01",  # the greatest
        b"\xff" * 9 + b"\x02",  # more than 64 bits
        b"\xff" * 9 + b"\x80\x00",
        b"\x80" * 8 + b"\x01",
        b"\x80" * 8 + b"\x80\x00",
    ],
)
def test_long_numbers(value):
    reader = _reader(json.dumps(record([field("x", "long")])))
    alike(reader, reader.itself, [b"\x02", value, b"\x04"])


def test_a_union_that_only_the_writer_has_is_passed():
    union = [
        "null",
        "string",
        "long",
        {"type": "record", "name": "U", "fields": [field("a", "bytes"), field("b", "float")]},
    ]
    writer_schema = record([field("u", union), field("x", "long")])
    reader = _reader(json.dumps(record([field("x", "long")])))
    writer = _writer.__wrapped__(1, Written(kind="AVRO", text=json.dumps(writer_schema)))
    rows = [None, "text", 5, {"a": b"xx", "b": 1.5}]
    values = [written(writer_schema, {"u": u, "x": n}) for n, u in enumerate(rows)]
    found = alike(reader, writer, [*values, b"\x08\x02", b"\x01\x02", values[1][:3]])
    assert found.rows.column("x").to_pylist() == [0, 1, 2, 3]
    assert set(found.errors) == {4, 5, 6}


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ([field("x", {"type": "array", "items": "long"})], [field("x", {"type": "array", "items": "long"})]),
        ([field("x", ["null", "string", "long"])], [field("x", "string")]),
        ([field("x", logical("long", "timestamp-micros"))], [field("x", logical("long", "timestamp-millis"))]),
        ([field("x", "string")], [field("x", "long")]),
        ([], [field("x", "long")]),
    ],
)  # fmt: skip
def test_everything_else_is_read_one_by_one(writer, reader):
    made = _writer.__wrapped__(1, Written(kind="AVRO", text=json.dumps(record(writer))))
    assert reading._plan(made, _reader(json.dumps(record(reader)))) is None


def test_many_records_are_read_in_pieces(monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 100)
    monkeypatch.setattr(reading, "BYTES", 3_000)
    schema = record([field("n", "long"), field("s", "string")])
    values = [
        written(schema, {"n": n, "s": "x" * (4_000 if n == 500 else n % 90)}) for n in range(1_000)
    ]
    values[77], values[700] = b"", values[700] + b"!"
    form = rc.formats.avro(schema)
    taken = pa.array([b"before", *values], pa.binary())[1:]
    pieces = list(reading._pieces(taken))
    assert len(pieces) > 10
    assert [stop for _, stop in pieces[:-1]] == [start for start, _ in pieces[1:]]
    made = form.parsed(taken)
    assert set(made.errors) == {77, 700}
    assert made.rows.column("n").to_pylist() == [n for n in range(1_000) if n not in (77, 700)]


def test_texts_that_are_none_are_found_among_many():
    values = np.array([b"ok"] * 1_000, object)
    values[[3, 500, 999]] = b"\xff"
    assert sorted(no_texts(pa.array(values.tolist(), pa.binary()))) == [3, 500, 999]


def test_errors_are_the_same_in_every_process():
    schema = record([field("x", "double")])
    assert rc.formats.avro(schema).parsed(pa.array([b"\0"])).errors == {
        0: "EOFError: cannot read double"
    }
