"""Bytes that no reader of Avro can mean, all at once and one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.kernels.functions.formats.avro.format import _reader, _writer
from rechannel.kernels.functions.formats.avro.sound import Sound
from rechannel.kernels.functions.formats.registry import Written
from tests.unit.kernels.functions.formats.avro_cases import field, logical, record, written

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
NULLABLE = ["null", "long"]
MONEY = logical("bytes", "decimal", precision=4, scale=2)
ITEMS = field("a", {"type": "array", "items": "long"})
BITS = "a whole number has more than 64 bits"
BROKEN = [
    (NULLABLE, b"\x01\x02", "field x has branch -1 of a union of 2"),
    (NULLABLE, b"\x04\x02", "field x has branch 2 of a union of 2"),
    (NULLABLE, b"\xff" * 9 + b"\x01\x02", f"field x has branch {-(2**63)} of a union of 2"),
    (ENUM, b"\x01", "field x has symbol -1 of an enum of 2"),
    (ENUM, b"\x04", "field x has symbol 2 of an enum of 2"),
    (ENUM, b"\x84\x00", "field x has symbol 2 of an enum of 2"),
    ("boolean", b"\x02", "field x has 2 as a boolean"),
    ("long", b"\xff" * 9 + b"\x7f", BITS),
    ("long", b"\x80" * 10 + b"\x00", BITS),
    ("int", b"\x80" * 10 + b"\x00", BITS),
    ("string", b"\x01a", "a text or bytes have the length -1"),
]


def read(theirs, ours, values):
    """Read values of a writer's schema with a reader's."""
    writer = _writer.__wrapped__(1, Written(kind="AVRO", text=json.dumps(theirs)))
    return _reader(json.dumps(ours)).read(pa.array(values, pa.binary()), writer, 0)


@pytest.mark.parametrize("passed", [False, True])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(("kind", "value", "words"), BROKEN)
def test_what_no_reader_can_mean_is_no_row(kind, value, words, alone, passed):
    last = [field("n", "long"), *([ITEMS] if alone else [])]
    theirs, rest = record([field("x", kind), *last]), b"\x02\0" if alone else b"\x02"
    good = {"long": b"\x02", "int": b"\x02", "string": b"\x02a"}.get(str(kind), b"\0")
    ours = record(last) if passed else theirs
    made = read(theirs, ours, [good + rest, value + rest, good + rest])
    assert made.errors == {1: words}
    assert made.rows.column("n").to_pylist() == [1, 1]


@pytest.mark.parametrize("alone", [False, True])
def test_a_record_that_is_read_by_itself_for_another_field_is_no_exception(alone):
    last = [ITEMS] if alone else []
    schema = record([field("d", MONEY), field("e", ENUM), *last])
    most = b"\x04" + (9_999).to_bytes(2)
    values = [most + b"\x02", most + b"\x01"]
    made = read(schema, schema, [value + b"\0" * alone for value in values])
    assert made.errors == {1: "field e has symbol -1 of an enum of 2"}
    assert made.rows.column("e").to_pylist() == ["B"]


KINDS = {
    "n": "long", "s": "string", "u": ["null", "string"], "e": ENUM, "a": {"type": "array", "items": "long"},
    "m": {"type": "map", "values": "long"}, "f": {"type": "array", "items": "double"},
}  # fmt: skip
LONG = [
    b"\x82\x80\x00",  # 1, in more bytes than it needs
    b"\x82\x00a",
    b"\x82\x00\x82\x00b",
    b"\x82\x00",
    b"\x01\x02\x02\x82\x00\x04\x80\x00",  # a block with its bytes, another one, and an end of two bytes
    b"\x02\x02k\x06\0",
    b"\0",
]


def test_numbers_in_more_bytes_than_they_need_and_blocks_with_their_bytes_are_read():
    form = rc.formats.avro(record([field(name, kind) for name, kind in KINDS.items()]))
    made = form.parsed(pa.array([b"".join(LONG)]))
    assert made.errors == {}
    assert made.rows.to_pylist() == [
        {"n": 1, "s": "a", "u": "b", "e": "B", "a": [1, 2], "m": [("k", 3)], "f": []}
    ]


MANY = b"\xfe" + b"\xff" * 8 + b"\x01"


@pytest.mark.parametrize("kind", ["long", "double"])
def test_more_items_than_there_are_bytes_are_left_to_fastavro(kind):
    sound = Sound(_parsed(record([field("x", {"type": "array", "items": kind})])))
    assert sound.broken(MANY + b"\0" * 20, 0) is None
    assert sound.broken(MANY, 0) is None


@pytest.mark.parametrize("kind", ["null", {"type": "record", "name": "U", "fields": []}])
def test_items_without_bytes_are_not_without_end(kind):
    theirs = record([field("n", "long"), field("x", {"type": "array", "items": kind})])
    values = [b"\x02\x06\0", b"\x02" + MANY + b"\0"]
    made = read(theirs, record([field("n", "long")]), values)
    assert made.rows.to_pylist() == [{"n": 1}]
    assert made.errors == {1: f"a block has {2**63 - 1} items without bytes"}


def test_records_that_are_too_deep_within_each_other_are_no_rows():
    tree = record([field("n", "long"), field("next", ["null", "T"])])
    row = {"n": 1, "next": {"n": 2, "next": None}}
    deep = b"\x02\x02" * 200_000 + b"\x02\0"
    made = read(tree, record([field("n", "long")]), [written(tree, row), deep, deep[:-1]])
    assert made.rows.to_pylist() == [{"n": 1}]
    assert set(made.errors) == {1, 2}
    assert "nested too deeply" in made.errors[1]


def _parsed(schema):
    return _writer.__wrapped__(1, Written(kind="AVRO", text=json.dumps(schema))).parsed
