"""Subjects of a registry: what the driver asks before any work starts, and what workers write."""

from __future__ import annotations

import io
import json

import fastavro
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import changes
from rechannel.errors import DataflowError, NotPermittedError, RefusedError, StorageError
from rechannel.job import InProcess
from rechannel.kernels.functions.formats import subjects
from rechannel.kernels.functions.formats.avro.encoder import AvroEncoder
from rechannel.kernels.functions.formats.framing import framing
from rechannel.kernels.functions.formats.protobuf.encoder import ProtobufEncoder
from rechannel.kernels.functions.formats.protobuf.framing import indexes, place_of
from rechannel.kernels.functions.formats.protobuf.types import Message
from rechannel.kernels.functions.formats.registry import Registry
from rechannel.kernels.functions.formats.subjects import Offered, Subject, subject_of
from tests.support.messages import add, classes, file

EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "user", "type": "string"}, {"name": "n", "type": "long"}],
}
WIDER = {**EVENT, "fields": [*EVENT["fields"], {"name": "more", "type": "long"}]}
ROWS = [{"user": "ann", "n": 1}, {"user": "bob", "n": 2}]


@pytest.fixture(autouse=True)
def _a_worker_of_its_own():
    subjects._KNOWN.clear()


def source(columns="user string, n bigint"):
    of = rc.sources.MemoryConnector(schema=columns)
    of.push(ROWS)
    return of


def job(state, make, of=None):
    records = make(rc.read().memory(of or source(), name="in"))
    return rc.Job("subjects", records.write.memory("out", name="out"), state=state)


def values(job):
    started = job.start(in_process=InProcess())
    try:
        started.process_all_available()
        return [row["value"] for row in started.memory("out").to_pylist()]
    finally:
        started.stop()


def test_a_schema_is_looked_up_and_its_id_stands_before_each_record(registry, tmp_path):
    registry.register("other", {"type": "record", "name": "Other", "fields": []})
    at = registry.register("events-value", EVENT)
    made = values(
        job(tmp_path, lambda s: s.encode_avro(EVENT, registry=registry.url, topic="events"))
    )
    assert [each[:5] for each in made] == [framing(at)] * 2
    read = [
        fastavro.schemaless_reader(io.BytesIO(each[5:]), fastavro.parse_schema(dict(EVENT)), None)
        for each in made
    ]
    assert read == ROWS
    posts = [each for each in registry.asked if each.startswith("POST")]
    assert len(posts) == 2, "once by the driver, once by the worker"
    assert not any("/versions" in each for each in posts), "nothing was registered"


def test_a_schema_that_is_not_there_stops_the_job_before_it_starts(registry, tmp_path):
    at = job(
        tmp_path / "a",
        lambda s: s.encode_avro(EVENT, registry=registry.url, topic="events", name="w"),
    )
    with pytest.raises(
        RefusedError,
        match=r"'w' .*subject 'events-value' .* does not have this schema .* register=True",
    ):
        at.start(in_process=InProcess())
    assert registry.by_id == {}
    registry.register("events-value", EVENT)
    wider = job(
        tmp_path / "b",
        lambda s: s.select("*", more="n").encode_avro(
            WIDER, registry=registry.url, subject="events-value"
        ),
    )
    with pytest.raises(RefusedError, match=r"register it there"):
        wider.start(in_process=InProcess())


def test_a_schema_is_registered_if_the_program_says_so(registry, tmp_path):
    def make(stream):
        return stream.encode_avro(registry=registry.url, topic="events", register=True)

    made = values(job(tmp_path, make))
    (at,) = registry.subjects["events-value"]
    assert json.loads(registry.by_id[at]["schema"]) == rc.formats.avro_schema(
        "user string, n bigint"
    )
    assert [each[:5] for each in made] == [framing(at)] * 2


def test_what_is_not_compatible_is_told_in_one_sentence(registry, tmp_path):
    registry.register("events-value", EVENT)

    def make(stream):
        return stream.select("*", more="n").encode_avro(
            WIDER, registry=registry.url, topic="events", register=True
        )

    with pytest.raises(RefusedError) as told:
        job(tmp_path, make).start(in_process=InProcess())
    text = str(told.value)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE, more" in text
    assert "give new fields a default" in text
    assert "\n" not in text
    assert len(registry.subjects["events-value"]) == 1


def test_a_live_change_is_refused_as_a_start_is(registry, tmp_path):
    registry.register("events-value", EVENT)
    of = source()
    rows = rc.read().memory(of, name="in")
    flow = rows.encode_avro(EVENT, registry=registry.url, topic="events").write.memory(
        "out", name="out"
    )
    started = rc.Job("changed", flow, state=tmp_path).start(in_process=InProcess())
    try:
        started.process_all_available()
        more = rows.encode_avro(EVENT, registry=registry.url, topic="others", name="others")
        with pytest.raises(RefusedError, match="others-value"):
            started.reconfigure(changes.add(more.write.memory("more", name="more")))
    finally:
        started.stop()


@pytest.mark.parametrize(
    ("failing", "kind", "words"),
    [
        ((401, {"error_code": 401, "message": "Unauthorized"}), NotPermittedError, "Give the registry's options"),
        ((422, {"error_code": 42201, "message": "Invalid schema"}), RefusedError, "correct the schema"),
        ((503, {"error_code": 50301, "message": "overload"}), StorageError, "overload"),
        ((200, "<html>sign in</html>"), StorageError, "does not answer"),
    ],
)  # fmt: skip
def test_other_answers_are_told_apart(registry, failing, kind, words):
    registry.failing = (
        failing[0],
        failing[1] if isinstance(failing[1], str) else json.dumps(failing[1]),
    )
    where = Subject(registry=Registry(url=registry.url), name="s", register=True)
    encoder = AvroEncoder(schema=json.dumps(EVENT), record="Record", subject=where)
    with pytest.raises(kind, match=words):
        encoder.agree(pa.schema([("user", pa.string()), ("n", pa.int64())]))
    assert registry.asked


def test_a_worker_whose_registry_has_lost_the_schema_waits_for_it(registry):
    where = Subject(registry=Registry(url=registry.url), name="s")
    encoder = AvroEncoder(schema=json.dumps(EVENT), record="Record", subject=where)
    rows = pa.RecordBatch.from_pylist(ROWS)
    with pytest.raises(StorageError, match="does not have this schema"):
        encoder.encoded(rows)
    at = registry.register("s", EVENT)
    assert encoder.encoded(rows).values[0].as_py()[:5] == framing(at)


def test_what_a_worker_keeps_is_bounded(registry, monkeypatch):
    monkeypatch.setattr(subjects, "SCHEMAS", 2)
    where = Subject(registry=Registry(url=registry.url), name="s")
    for number in range(4):
        schema = {**EVENT, "doc": str(number)}
        registry.register("s", schema)
        subjects.id_of(where, Offered(kind="AVRO", text=json.dumps(schema)))
    assert len(subjects._KNOWN) == 2


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (("t", "", "value"), "t-value"),
        (("t", "", "key"), "t-key"),
        (("", "own", "key"), "own"),
        (("", "", "value"), ""),
    ],
)
def test_names_of_subjects(given, name):
    assert subject_of(*given) == name


def test_a_subject_needs_a_name():
    with pytest.raises(DataflowError, match="give topic="):
        Subject(registry=Registry(url="http://r"), name=" ")


def messages():
    """A message within another one, which is not the first of its file; and one of another file that it has."""
    shared = file("shared.proto")
    add(shared.message_type.add(name="Money"), "cents", "int64", 1)
    of = file("deep.proto")
    of.dependency.append("shared.proto")
    of.message_type.add(name="First")
    outer = of.message_type.add(name="Outer")
    outer.nested_type.add(name="A")
    inner = outer.nested_type.add(name="B")
    add(inner, "n", "int64", 1)
    add(inner, "price", "shop.Money", 2)
    return classes(of, "shop.First", "shop.Outer", "shop.Outer.B", others=[shared])


def test_messages_are_registered_with_what_they_import(registry):
    _, _, inner = messages()
    where = Subject(registry=Registry(url=registry.url), name="deep-value", register=True)
    encoder = ProtobufEncoder(message=Message.of(inner), subject=where)
    rows = pa.RecordBatch.from_pylist([{"n": 5, "price": {"cents": 7}}])
    encoder.agree(rows.schema)
    (at,), (named,) = registry.subjects["deep-value"], registry.subjects["shared.proto"]
    assert registry.by_id[at]["references"] == [
        {"name": "shared.proto", "subject": "shared.proto", "version": 1}
    ]
    assert named != at
    (value,) = encoder.encoded(rows).values.to_pylist()
    assert value[:5] == framing(at)
    found, start = indexes(value, 5)
    assert found == (1, 1)
    read = inner.FromString(value[start:])
    assert (read.n, read.price.cents) == (5, 7)


def test_places_of_messages():
    first, outer, inner = messages()
    assert place_of(first.DESCRIPTOR) == b"\0"
    assert place_of(outer.DESCRIPTOR) == b"\x02\x02"
    assert place_of(inner.DESCRIPTOR) == b"\x04\x02\x02"
    many = file()
    for number in range(70):
        many.message_type.add(name=f"M{number}")
    (last,) = classes(many, "shop.M69")
    assert indexes(place_of(last.DESCRIPTOR), 0) == ((69,), 3)
