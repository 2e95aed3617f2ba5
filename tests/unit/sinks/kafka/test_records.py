"""Rows as records, and a topic as a sink."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, RefusedError
from rechannel.job import InProcess
from rechannel.sinks.kafka.outlet import KafkaOutlet
from rechannel.sinks.kafka.records import RecordColumns

AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=dt.UTC)
BATCH = pa.record_batch(
    {
        "user": pa.array(["ann", None]),
        "n": pa.array([1, 2]),
        "raw": pa.array([b"\x00", None]),
        "at": pa.array([AT, None], pa.timestamp("us", "UTC")),
    }
)


def columns(key="", value="", timestamp="") -> RecordColumns:
    return RecordColumns(key=key, value=value, timestamp=timestamp)


def test_records_have_the_columns_that_were_chosen():
    assert list(columns("user", "raw", "at").records(BATCH)) == [
        (b"ann", b"\x00", int(AT.timestamp() * 1_000)),
        (None, None, None),
    ]
    assert [key for key, _, _ in columns("n", "raw").records(BATCH)] == [b"1", b"2"]


def test_without_a_column_of_values_a_value_is_a_json_object():
    (one, two) = (json.loads(value) for _, value, _ in columns("n").records(BATCH))
    assert one == {"user": "ann", "n": 1, "raw": "AA==", "at": "2026-01-02T03:04:05.678999Z"}
    assert two == {"n": 2}


def test_a_key_that_is_gone_gets_a_record_without_value():
    rows = pa.table(
        {
            "user": ["ann", "ann", "bob", "cat", "dan", "eve"],
            "n": [1, 2, 3, 4, 5, 6],
            "change": [
                "update_before",
                "update_after",
                "delete",
                "insert",
                "delete",
                "update_before",
            ],
        }
    )
    made = {key: value for key, value, _ in columns("user").changed(rows, "change", "topic")}
    assert {key: value and json.loads(value) for key, value in made.items()} == {
        b"ann": {"user": "ann", "n": 2},
        b"bob": None,
        b"cat": {"user": "cat", "n": 4},
        b"dan": None,
        b"eve": None,
    }
    lacking = rows.set_column(0, "user", pa.array([None] * 6, pa.string()))
    with pytest.raises(RefusedError, match="topic is written by user, and a row has no 'user'"):
        list(columns("user").changed(lacking, "change", "topic"))


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"key": "who"}, "no column 'who' for key; there are user, n, raw, at"),
        ({"value": "n"}, "column 'n' is int64, which cannot be the value"),
        ({"key": "at"}, "column 'at' is timestamp"),
        ({"timestamp": "n"}, "cannot be the timestamp"),
    ],
)
def test_columns_that_records_cannot_have_are_named(chosen, words):
    with pytest.raises(DataflowError, match=words):
        columns(**chosen).check(BATCH.schema, "out")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"topic": " "}, "give topic"),
        ({"bootstrap": ""}, "give bootstrap"),
        ({"wait_s": 0}, "wait_s must be above 0"),
        (
            {"options": {"transactional.id": "x"}},
            "cannot be set: it is made of the job and the sink",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(DataflowError, match=words):
        KafkaOutlet(**{"bootstrap": "h:9092", "topic": "t", **arguments})


def test_a_topic_is_not_written_directly_from_a_source(tmp_path):
    source = rc.sources.MemoryConnector(schema="n bigint")
    flow = rc.read().memory(source, name="in").write.kafka("h:9092", "t")
    with pytest.raises(
        DataflowError, match=r"so kafka t at h:9092 is not possible: put an operator"
    ):
        rc.Job("copy", flow, state=tmp_path).start(in_process=InProcess())
