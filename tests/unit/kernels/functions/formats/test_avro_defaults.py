"""Defaults of fields in Avro, all at once and one by one, in both directions."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Context, Decimal

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.avro.encoder import AvroEncoder
from rechannel.kernels.functions.formats.avro.format import _reader, _writer
from rechannel.kernels.functions.formats.registry import Written
from tests.unit.kernels.functions.formats.avro_cases import field, logical, record, written

SECOND = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
FIXED = {"type": "fixed", "name": "F", "size": 1}
MONEY = logical("bytes", "decimal", precision=4, scale=2)
WIDE = logical("bytes", "decimal", precision=38, scale=2)
MEMBERS = [field("b", "bytes"), field("d", MONEY, default="\u007f")]
PAIR = {"type": "record", "name": "P", "fields": MEMBERS}
CASES = [
    ("bytes", "\u00ff\u0000a", b"\xff\0a"),
    (["bytes", "null"], "\u00ff", b"\xff"),
    (["null", "bytes"], None, None),
    (FIXED, "\u00ff", b"\xff"),
    (MONEY, "\u0000", Decimal("0.00")),
    (MONEY, "", Decimal("0.00")),
    (MONEY, "\u00ff\u0000", Decimal("-2.56")),
    ({**FIXED, "logicalType": "decimal", "precision": 2, "scale": 1}, "\u00fe", Decimal("-0.2")),
    (
        WIDE,
        (10**38 - 1).to_bytes(16).decode("latin-1"),
        Decimal(10**38 - 1).scaleb(-2, Context(prec=40)),
    ),
    (logical("long", "timestamp-millis"), 1_000, SECOND),
    (logical("long", "timestamp-micros"), 1_000_000, SECOND),
    (logical("long", "local-timestamp-millis"), 1_000, SECOND.replace(tzinfo=None)),
    (logical("int", "date"), 1, dt.date(1970, 1, 2)),
    ("double", 1.5, 1.5),
    (PAIR, {"b": "\u00ff"}, {"b": b"\xff", "d": Decimal("1.27")}),
]
ARRAYS = [
    ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
    ({"type": "map", "values": MONEY}, {"k": "\u0001"}, [("k", Decimal("0.01"))]),
]
ITEMS = field("a", {"type": "array", "items": "long"})


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(("kind", "default", "value"), CASES + ARRAYS)
def test_records_without_a_field_have_its_default(kind, default, value, alone):
    items = [ITEMS] if alone else []
    theirs = record([field("n", "long"), *items])
    reader = _reader(
        json.dumps(record([field("n", "long"), field("x", kind, default=default), *items]))
    )
    writer = _writer.__wrapped__(1, Written(kind="AVRO", text=json.dumps(theirs)))
    made = reader.read(pa.array([written(theirs, {"n": 1, "a": []})] * 2), writer, 0)
    assert made.errors == {}
    assert made.rows.column("x").to_pylist() == [value] * 2


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(("kind", "default", "value"), CASES + ARRAYS)
def test_rows_without_a_column_have_the_default_of_its_field(kind, default, value, alone):
    columns = {"n": pa.array([1, 2])} | (
        {"a": pa.array([[], [1]], pa.list_(pa.int64()))} if alone else {}
    )
    items = [ITEMS] if alone else []
    schema = record([field("n", "long"), field("x", kind, default=default), *items])
    made = AvroEncoder(schema=json.dumps(schema), record="T").encoded(pa.record_batch(columns))
    assert made.errors == {}
    back = rc.formats.avro(schema).parsed(made.values)
    assert back.errors == {}
    assert back.rows.column("x").to_pylist() == [value] * 2


@pytest.mark.parametrize(
    ("kind", "default", "words"),
    [
        ("bytes", "\u20ac", "latin-1"),
        (FIXED, "ab", "it has 2 bytes, not 1"),
        (PAIR, {"d": ""}, "it lacks 'b', which has no default"),
        ({"type": "array", "items": "bytes"}, [1], "encode"),
    ],
)
def test_a_default_that_does_not_fit_its_type_is_refused(kind, default, words):
    schema = record([field("x", kind, default=default)])
    with pytest.raises(DataflowError, match=f"field 'x' has the default .*{words}"):
        rc.formats.avro(schema)
    with pytest.raises(DataflowError, match=f"field 'x' has the default .*{words}"):
        AvroEncoder(schema=json.dumps(schema), record="T")
