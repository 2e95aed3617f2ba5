"""Schema registries: what they say, and what jobs do while they say nothing."""

from __future__ import annotations

import datetime as dt
import io
import json

import fastavro
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, NotPermittedError, StorageError
from rechannel.job import InProcess
from rechannel.kernels.functions.formats.framing import framing
from rechannel.kernels.functions.formats.registry import (
    SCHEMAS,
    UNKNOWN_S,
    Registry,
    Schemas,
    Written,
    schemas,
)

EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def written(schema_id, user, second) -> bytes:
    out = io.BytesIO()
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
    fastavro.schemaless_writer(out, fastavro.parse_schema(dict(EVENT)), {"user": user, "at": at})
    return framing(schema_id) + out.getvalue()


class Asked:
    """Counts what is asked."""

    def __init__(self):
        self.ids, self.now_s, self.known = [], 0.0, set()

    def ask(self, schema_id):
        self.ids.append(schema_id)
        return Written(kind="AVRO", text=str(schema_id)) if schema_id in self.known else None


def test_a_schema_is_asked_for_once_and_an_unknown_one_again_later():
    of = Asked()
    of.known = {1}
    seen = Schemas(of.ask, lambda: of.now_s)
    assert [seen.of(1), seen.of(1), seen.of(2), seen.of(2)][2:] == [None, None]
    assert of.ids == [1, 2]
    of.known.add(2)
    of.now_s = UNKNOWN_S
    assert seen.of(2).text == "2"
    assert of.ids == [1, 2, 2]


def test_what_is_kept_is_bounded():
    of = Asked()
    of.known = set(range(SCHEMAS + 5))
    seen = Schemas(of.ask, lambda: 0.0)
    for each in range(SCHEMAS + 5):
        seen.of(each)
    seen.of(SCHEMAS)
    assert len(of.ids) == SCHEMAS + 5
    seen.of(0)
    assert len(of.ids) == SCHEMAS + 6


@pytest.mark.parametrize(
    ("failing", "kind"),
    [
        ((404, json.dumps({"error_code": 404, "message": "HTTP 404 Not Found"})), StorageError),
        ((404, "<html>no such page</html>"), StorageError),
        ((200, "<html>sign in</html>"), StorageError),
        ((401, json.dumps({"error_code": 401, "message": "Unauthorized"})), NotPermittedError),
    ],
)
def test_other_answers_say_nothing_of_records(registry, failing, kind):
    registry.failing = failing
    with pytest.raises(kind, match="schema registry at"):
        schemas(Registry(url=registry.url)).of(1)
    assert registry.asked
    registry.failing = None
    assert schemas(Registry(url=registry.url)).of(1) is None


def test_no_connection_is_a_failure_of_the_store():
    with pytest.raises(StorageError, match="does not answer"):
        schemas(Registry(url="http://127.0.0.1:9", wait_s=1.0)).of(1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "registry:8081"}, "give a URL"),
        ({"url": "http://a", "wait_s": 0}, "wait_s must be above 0"),
        ({"url": "http://a", "options": {"timeout": "1"}}, "give wait_s="),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(DataflowError, match=words):
        Registry(**settings)


def test_a_job_waits_for_its_registry_and_loses_nothing(registry, tmp_path):
    at = registry.register("e", EVENT)
    source = rc.sources.MemoryConnector(
        schema="value binary, topic string, offset bigint, junk string"
    )
    values = [written(at, "ann", 1), b"junk" * 50_000, written(at, "ann", 70), written(9, "bob", 5)]
    source.push(
        [{"value": v, "topic": "t", "offset": n, "junk": "x"} for n, v in enumerate(values)]
    )
    form = rc.formats.avro(EVENT, registry=registry.url)
    events = rc.read().memory(source, name="in").decode(form, on_error="dead_letter", name="events")
    minutes = (
        events.event_time("at").key_by("user").window(rc.windows.tumbling("1 minute"))
        .aggregate(n=agg.count(), name="minutes")
    )  # fmt: skip
    flows = [
        minutes.write.memory("out", name="out"),
        events.dead_letters.write.memory("bad", name="bad"),
    ]
    registry.failing = (503, json.dumps({"error_code": 50301, "message": "overload"}))
    job = rc.Job("waits", flows, state=tmp_path).start(in_process=InProcess())
    try:
        while not registry.asked:
            job.await_termination(0.1)
        registry.failing = None
        job.process_all_available()
        assert [(row["user"], row["n"]) for row in job.memory("out").to_pylist()] == [("ann", 1)]
        bad = job.memory("bad").to_pylist()
    finally:
        job.stop()
    rows = [json.loads(row["row"]) for row in bad]
    assert [(row["topic"], row["offset"]) for row in rows] == [("t", 1), ("t", 3)]
    assert "junk" not in rows[0]
    assert "(200000 bytes; the first 65536 are here)" in bad[0]["error"]
    assert "no schema 9" in bad[1]["error"]
