"""Columns as records: the operators, their checks, dead letters, and that decoders read what encoders write."""

from __future__ import annotations

import json

import fastavro
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.dataflow.identity.digests import digest_of
from rechannel.errors import DataflowError, UnknownColumnError, UserFunctionError
from rechannel.job import InProcess
from rechannel.kernels.functions.formats.avro.encoder import AvroEncoder
from rechannel.kernels.functions.formats.json_encoder import JsonEncoder
from rechannel.kernels.functions.formats.json_objects import json_objects
from rechannel.kernels.functions.formats.registry import Registry
from rechannel.kernels.functions.formats.subjects import Subject
from tests.support.messages import add, classes, file

COLUMNS = "user string, n bigint, at timestamp"
EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "more", "type": "int", "default": 7},
    ],
}


def event():
    of = file()
    message = of.message_type.add(name="Event")
    for number, (name, kind) in enumerate([("user", "string"), ("n", "int64")], start=1):
        add(message, name, kind, number, optional=True)
    add(message, "at", "google.protobuf.Timestamp", 3)
    return classes(of, "shop.Event")[0]


MESSAGE = event()
ROWS = [
    {"user": "ann", "n": 1, "at": None},
    {"user": "bob", "n": -5, "at": 1_700_000_000_123_000},
]
ENCODED = {
    "json": lambda stream, **more: stream.encode_json(**more),
    "avro": lambda stream, **more: stream.encode_avro(EVENT, **more),
    "protobuf": lambda stream, **more: stream.encode_protobuf(MESSAGE, **more),
}
FORMATS = {
    "json": rc.formats.json(COLUMNS),
    "avro": rc.formats.avro({**EVENT, "fields": EVENT["fields"][:3]}),
    "protobuf": rc.formats.protobuf(MESSAGE),
}


def source(columns=COLUMNS):
    return rc.sources.MemoryConnector(schema=columns)


def stream(columns=COLUMNS):
    return rc.read().memory(source(columns), name="in")


def run(of, flows, state, *memories):
    job = rc.Job("encodes", flows, state=state).start(in_process=InProcess())
    try:
        job.process_all_available()
        return [job.memory(name).to_pylist() for name in memories]
    finally:
        job.stop()


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_encoded_is_decoded(form, tmp_path):
    of = source()
    of.push(ROWS)
    rows = rc.read().memory(of, name="in")
    records = ENCODED[form](rows, keep=["user"])
    if form == "avro":  # the reader lacks the last field: a writer's schema is needed
        records = rows.encode_avro({**EVENT, "fields": EVENT["fields"][:3]}, keep=["user"])
    again = records.decode(FORMATS[form])
    flows = [records.write.memory("records", name="r"), again.write.memory("again", name="a")]
    written, found = run(of, flows, tmp_path, "records", "again")
    assert [row["user"] for row in written] == ["ann", "bob"]
    times = [each["at"] and int(each["at"].timestamp() * 1e3) * 1_000 for each in found]
    assert times == [None, ROWS[1]["at"]]
    assert [(each["user"], each["n"]) for each in found] == [("ann", 1), ("bob", -5)]


def test_json_is_what_the_sink_of_kafka_writes():
    rows = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}, {"a": None, "b": 'q"'}])
    made = JsonEncoder().encoded(rows)
    assert made.values.to_pylist() == json_objects(rows).to_pylist()
    assert [json.loads(each) for each in made.values.to_pylist()] == [
        {"a": 1, "b": "x"},
        {"b": 'q"'},
    ]


BAD = {
    "json": ({"user": "x", "n": 1, "at": 300_000_000_000_000_000}, "year|range|large"),
    "avro": ({"user": None, "n": 1, "at": None}, "field user is null"),
    "protobuf": ({"user": "a" * 3, "n": 1, "at": 300_000_000_000_000_000}, "range|timestamp|year"),
}


@pytest.mark.parametrize("form", ["json", "avro"])
def test_rows_that_cannot_be_written_are_dead_letters(form, tmp_path):
    of = source()
    bad, words = BAD[form]
    of.push([ROWS[0], bad, ROWS[1]])
    records = ENCODED[form](
        rc.read().memory(of, name="in"), on_error="dead_letter", name="written", keep=["n"]
    )
    flows = [
        records.write.memory("good", name="good"),
        records.dead_letters.write.memory("bad", name="bad"),
    ]
    good, letters = run(of, flows, tmp_path, "good", "bad")
    assert [row["n"] for row in good] == [1, -5]
    (letter,) = letters
    assert letter["operator"] == "written"
    assert any(word in letter["error"] for word in words.split("|")), letter["error"]


def test_without_dead_letters_the_timestep_fails(tmp_path):
    of = source()
    of.push([ROWS[0], BAD["avro"][0]])
    records = ENCODED["avro"](rc.read().memory(of, name="in"))
    with pytest.raises(
        UserFunctionError, match=r"one of 2 rows cannot be written as Avro: field user is null"
    ):
        run(of, records.write.memory("out", name="out"), tmp_path, "out")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda s: s.encode_json(keep=["value"]), UnknownColumnError, "no column 'value'"),
        (lambda s: s.encode_json(keep=["n"], column="n"), DataflowError, "'n' is kept, and is to have the records"),
        (lambda s: s.encode_json(columns=["x"]), UnknownColumnError, "no column 'x'"),
        (lambda s: s.select("*", x="n").encode_avro(EVENT), DataflowError, "column 'x' is no field .* columns="),
        (lambda s: s.select("user").encode_avro(EVENT), DataflowError, "field 'n' has no column and no default"),
        (lambda s: s.select("at", user="n", n="n").encode_avro(EVENT), DataflowError, "'user' is bigint, .* string"),
        (lambda s: s.select("user", "n", "at", x="n").encode_protobuf(MESSAGE), DataflowError, "'x' is no field"),
        (lambda s: s.select("n", user="n").encode_protobuf(MESSAGE), DataflowError, "'user' is bigint, .* string"),
        (lambda s: s.encode_avro("nope"), DataflowError, "no schema"),
        (lambda s: s.select(**{"a-b": "n"}).encode_avro(), DataflowError, "'a-b' cannot be the name of a field"),
        (lambda s: s.encode_avro(topic="t"), DataflowError, "need registry="),
        (lambda s: s.encode_avro(registry="http://r"), DataflowError, "give topic="),
        (lambda s: s.encode_avro(registry="http://r", topic="t", subject="s"), DataflowError, "leave one of them out"),
        (lambda s: s.encode_protobuf(dict), DataflowError, "give the class of a message"),
        (lambda s: s.encode_json(on_error="ignore"), DataflowError, "on_error"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_when_it_is_written_down(make, error, words):
    with pytest.raises(error, match=words):
        make(stream())


def test_a_derived_schema_takes_every_column():
    columns = pa.schema(
        [
            ("b", pa.bool_()), ("i", pa.int16()), ("u", pa.uint32()), ("f", pa.float32()), ("d", pa.float64()),
            ("s", pa.large_string()), ("raw", pa.binary()), ("m", pa.decimal128(9, 2)), ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("ms")),
            ("l", pa.list_(pa.int32())), ("map", pa.map_(pa.string(), pa.int64())),
            ("r", pa.struct([("x", pa.int64())])),
        ]
    )  # fmt: skip
    schema = rc.formats.avro_schema(columns, record="All")
    assert fastavro.parse_schema(json.loads(json.dumps(schema)))["name"] == "All"
    rows = pa.RecordBatch.from_pylist([{"i": 1, "l": [1, None], "r": {"x": 2}}, {}], columns)
    made = AvroEncoder(schema=None, record="All").encoded(rows)
    assert made.errors == {}
    back = rc.formats.avro(schema).parsed(made.values)
    assert back.errors == {}
    assert back.rows.select(["i", "l", "r"]).to_pylist() == [
        {"i": 1, "l": [1, None], "r": {"x": 2}}, {"i": None, "l": None, "r": None}
    ]  # fmt: skip


def test_identity_is_the_schema_and_the_subject_and_not_the_registry():
    def digest(host, register=False, name="s"):
        where = Subject(registry=Registry(url=f"http://{host}"), name=name, register=register)
        return digest_of(AvroEncoder(schema=json.dumps(EVENT), record="Record", subject=where))

    assert digest("a") == digest("b", register=True)
    assert digest("a").complete
    assert digest("a") != digest("a", name="t")
