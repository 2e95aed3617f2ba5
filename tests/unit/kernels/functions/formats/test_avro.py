"""Records of Avro as columns."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.dataflow.identity.digests import digest_of
from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.framing import framing

EVENT = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
OLD = {**EVENT, "fields": [EVENT["fields"][0], {"name": "n", "type": "int"}]}
NEW = {**EVENT, "fields": [*EVENT["fields"], {"name": "more", "type": "string"}]}


def written(schema, row, schema_id=None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return (b"" if schema_id is None else framing(schema_id)) + out.getvalue()


def parsed(form, *values):
    return form.parsed(pa.array(values, pa.binary()))


EVERY = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
        {"name": "fix", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "again", "type": ["E", "null"]},
        {"name": "a", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "map", "values": "int"}}},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "money",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {
            "name": "r",
            "type": {
                "type": "record",
                "name": "R",
                "fields": [{"name": "x", "type": "long"}, {"name": "m", "type": {"type": "map", "values": "long"}}],
            },
        },
        {"name": "rs", "type": {"type": "array", "items": "R"}},
    ],
}  # fmt: skip
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
times = st.datetimes(
    dt.datetime.fromisoformat("1700-01-01"), dt.datetime.fromisoformat("2200-01-01")
)
inner = st.fixed_dictionaries({"x": longs, "m": st.dictionaries(texts, longs, max_size=2)})
every = st.fixed_dictionaries(
    {
        "b": st.booleans(),
        "i": ints,
        "l": longs,
        "d": st.floats(allow_nan=False),
        "s": st.none() | texts,
        "raw": st.binary(max_size=4),
        "fix": st.binary(min_size=2, max_size=2),
        "e": st.sampled_from("AB"),
        "again": st.none() | st.sampled_from("AB"),
        "a": st.lists(st.none() | longs, max_size=3),
        "m": st.dictionaries(texts, st.dictionaries(texts, ints, max_size=2), max_size=2),
        "u": st.uuids(),
        "money": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
        "day": st.dates(),
        "ms": times.map(lambda t: t.replace(microsecond=0, tzinfo=dt.UTC)),
        "us": st.none() | times.map(lambda t: t.replace(tzinfo=dt.UTC)),
        "local": times,
        "r": inner,
        "rs": st.lists(inner, max_size=2),
    }
)


def as_column(row):
    def nested(each):
        return {**each, "m": list(each["m"].items())}

    return row | {
        "m": [(key, list(of.items())) for key, of in row["m"].items()],
        "u": str(row["u"]),
        "r": nested(row["r"]),
        "rs": [nested(each) for each in row["rs"]],
    }


@given(st.lists(every, max_size=4))
def test_columns_are_the_fields(rows):
    made = parsed(rc.formats.avro(EVERY), *(written(EVERY, row) for row in rows))
    assert made.errors == {}
    assert made.rows.to_pylist() == [as_column(row) for row in rows]
    made.rows.validate(full=True)


@given(st.binary(max_size=40), every)
def test_no_bytes_touch_the_other_records(noise, row):
    good = written(EVERY, row)
    for bad in (noise, good[:-1], good + b"\0"):
        made = parsed(rc.formats.avro(EVERY), good, bad, None, good)
        kept = made.rows.to_pylist()
        assert kept[0] == kept[-1] == as_column(row)
        assert len(kept) + len(made.errors) == 4
        assert set(made.errors) <= {1}
        assert set(made.errors) == {1} or bad is noise


def test_versions_of_a_schema_are_read_with_one(registry):
    form = rc.formats.avro(EVENT, registry=registry.url)
    old, new = (registry.register("e", each) for each in (OLD, NEW))
    values = [
        written(NEW, {"user": "b", "n": 2, "note": "x", "more": "y"}, new),
        written(OLD, {"user": "a", "n": 1}, old),
        None,
        written(NEW, {"user": "c", "n": 3, "note": None, "more": "y"}, new),
    ]
    for _ in range(2):
        made = parsed(form, *values)
        assert made.errors == {}
        assert [tuple(row.values()) for row in made.rows.to_pylist()] == [
            ("b", 2, "x"), ("a", 1, None), (None, None, None), ("c", 3, None)
        ]  # fmt: skip
    assert len(registry.asked) == 2, "each schema is asked for once"


def test_what_is_no_record_is_named(registry):
    good = registry.register("e", EVENT)
    other = registry.register("o", {"type": "record", "name": "Other", "fields": []})
    proto = registry.register("p", b"\n\x01x", "PROTOBUF")
    row = {"user": "a", "n": 1, "note": None}
    made = parsed(
        rc.formats.avro(EVENT, registry=registry.url),
        written(EVENT, row, good),
        b"\0\0\0",
        b"{" + written(EVENT, row, good)[1:],
        framing(99) + b"x",
        framing(other),
        framing(proto),
        framing(good) + b"\x0cab",
        framing(good),
        written(EVENT, row, good) + b"!",
        written(EVENT, row, good),
    )
    assert made.rows.to_pylist() == [row, row]
    words = {
        1: "shorter than 5 bytes", 2: "does not begin", 3: "no schema 99", 4: "Other", 5: "of PROTOBUF",
        6: "EOFError", 7: "EOFError", 8: "1 bytes are left",
    }  # fmt: skip
    assert set(made.errors) == set(words)
    for at, word in words.items():
        assert word in made.errors[at], at


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        ("string", "a"),
        (["null", {**EVENT, "fields": EVENT["fields"][:1]}], None),
        ({"type": "map", "values": "long"}, {"n": 1}),
        ({"type": "array", "items": "long"}, [1]),
        ({"type": "enum", "name": "Event", "namespace": "shop", "symbols": ["A"]}, "A"),
        ({"type": "fixed", "name": "Event", "namespace": "shop", "size": 1}, b"a"),
    ],
)
def test_a_writer_that_writes_no_records_harms_its_values_only(registry, schema, row):
    good, other = (registry.register("e", each) for each in (EVENT, schema))
    event = {"user": "a", "n": 1, "note": None}
    form = rc.formats.avro(EVENT, registry=registry.url)
    made = parsed(form, written(EVENT, event, good), written(schema, row, other))
    assert made.rows.to_pylist() == [event]
    assert set(made.errors) == {1}


def test_records_that_contain_themselves_are_passed(registry):
    tree = {
        **EVENT,
        "fields": [*EVENT["fields"], {"name": "before", "type": ["null", "Event"]}],
    }
    at = registry.register("e", tree)
    rows = [{"user": "a", "n": 1, "note": None, "before": None}]
    for n in range(3):
        rows.append({"user": "b", "n": n, "note": "x", "before": rows[-1]})
    form = rc.formats.avro(EVENT, registry=registry.url)
    made = parsed(form, *(written(tree, row, at) for row in rows))
    assert made.errors == {}
    assert made.rows.to_pylist() == [
        {name: row[name] for name in ("user", "n", "note")} for row in rows
    ]


def test_schemas_that_name_others(registry):
    name = {"type": "record", "name": "Name", "fields": [{"name": "first", "type": "string"}]}
    naming = {"type": "record", "name": "P", "fields": [{"name": "who", "type": "Name"}]}
    whole = {"type": "record", "name": "P", "fields": [{"name": "who", "type": name}]}
    registry.register("name", name)
    at = registry.register("p", naming, references=(("Name", "name", 1),))
    value = written(whole, {"who": {"first": "Ann"}}, at)
    made = parsed(rc.formats.avro(whole, registry=registry.url), value)
    assert made.rows.to_pylist() == [{"who": {"first": "Ann"}}]


def test_plain_numbers_of_earlier_writers_count_in_the_unit_of_the_reader(registry):
    def at(kind):
        return {"type": "record", "name": "T", "fields": [{"name": "at", "type": kind}]}

    reader = at({"type": "long", "logicalType": "timestamp-millis"})
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    ids = [registry.register("t", each) for each in (at("long"), at(micros), reader)]
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6_000, tzinfo=dt.UTC)
    values = [
        written(at("long"), {"at": int(moment.timestamp() * 1e3)}, ids[0]),
        written(at(micros), {"at": moment}, ids[1]),
        written(reader, {"at": moment}, ids[2]),
    ]
    made = parsed(rc.formats.avro(reader, registry=registry.url), *values)
    assert made.rows.to_pylist() == [{"at": moment}] * 3


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (["null", "string", "long"], "field x is a union of 2 types"),
        ("null", "field x is null"),
        ({"type": "long", "logicalType": "time-micros"}, "field x is time-micros as long"),
        ({"type": "array", "items": ["int", "string"]}, r"field x\[\] is a union"),
        (["null", "shop.T"], "record shop.T within itself"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2},
            "decimal of 60 digits",
        ),
    ],
)
def test_what_has_no_column_is_refused_with_its_name(kind, words):
    schema = {
        "type": "record", "name": "T", "namespace": "shop", "fields": [{"name": "x", "type": kind}]
    }  # fmt: skip
    with pytest.raises(DataflowError, match=words):
        rc.formats.avro(schema)


@pytest.mark.parametrize("schema", ["nope", '"string"', {"type": "record"}, [1]])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(DataflowError, match="Avro"):
        rc.formats.avro(schema)


def test_identity_is_the_schema_of_the_reader_and_not_the_address():
    one, two = (
        rc.formats.registry(f"http://{host}:8081", options={"basic.auth.user.info": host})
        for host in ("a", "b")
    )
    forms = [rc.formats.avro(EVENT, registry=each) for each in (one, two)]
    assert digest_of(forms[0]) == digest_of(forms[1])
    assert digest_of(forms[0]).complete
    assert digest_of(rc.formats.avro(NEW, registry=one)) != digest_of(forms[0])
    assert digest_of(rc.formats.avro(EVENT)) != digest_of(forms[0])
    assert "basic" not in repr(one)


def test_uuids_are_texts():
    schema = {
        "type": "record", "name": "U",
        "fields": [{"name": "u", "type": {"type": "string", "logicalType": "uuid"}}],
    }  # fmt: skip
    made = parsed(rc.formats.avro(schema), written(schema, {"u": uuid.UUID(int=7)}))
    assert made.rows.to_pylist() == [{"u": str(uuid.UUID(int=7))}]
