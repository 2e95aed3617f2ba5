from __future__ import annotations

import json

import pytest

from rechannel.engine.journal.entries import (
    Closed,
    Committed,
    ConfigurationChanged,
    Entry,
    Intent,
    Note,
    Notes,
    Opened,
    Published,
    SavepointDropped,
    SavepointMade,
    SourceRange,
    SourceReset,
    StateEdited,
    Withdrawn,
)
from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.model.bad_rows import Counted
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.state.manifest import Edit
from rechannel.state.run import Run
from rechannel.state.sealed import seal

RUN = Run(
    segment="segments/counts/7-0.arrow",
    clip=Intervals(((5, 2**63), (2**63 + 1, SPACE))),
    seq=14,
    level=1,
    rows=1000,
    size=41514,
    span=SPACE,
)
CONFIGURATION = Configuration(
    version=3,
    operators={
        "counts": OperatorConfiguration(tasks=2, routing=Routing.even(bins=8, tasks=2)),
        "parse": OperatorConfiguration(tasks=5, combining=False, logic=2),
    },
    interval_ms=100,
    in_flight=2,
)
RANGE = SourceRange(start={"0": 5}, end={"0": 9}, layout=[["a.parquet"], ["b.parquet"]])

BODIES = [
    Opened(host="h", pid=7, time_ms=1, fingerprint="f", version="0.1.0", keep_versions=4),
    Opened(host="h", pid=7, time_ms=1, fingerprint="f", version="0.1.0", id="5f"),
    Intent(timestep=7, sources={"flights": RANGE}, configuration_version=3, stream_ms=99),
    Intent(
        timestep=0,
        sources={},
        configuration_version=3,
        stream_ms=99,
        configuration=CONFIGURATION,
    ),
    Committed(
        timestep=7,
        edits={"counts": Edit(retire=(((3, 4), Intervals(((0, 9),))),), add=(RUN,))},
        offsets={"flights": {"0": 9}},
        staged={"out": ["part-0"]},
        outbox={"counts": ("outbox/counts/7-0.arrow",)},
    ),
    Committed(timestep=8),
    Committed(timestep=9, bad_rows={"parse": Counted(rows=10, bad=1, keep=4)}),
    Published(timestep=5, sink="out", incarnation="sink-2", dropped="it is gone"),
    Published(timestep=7, sink="out"),
    Withdrawn(from_timestep=8, reason="too large"),
    ConfigurationChanged(from_timestep=9, configuration=CONFIGURATION, cause="request 5"),
    Note(kind="reconfiguration", body={"phase": "prepare", "moved": [1, 2.5, None]}),
    Notes(bodies={"program": {"1": {}}, "gone": None}),
    Closed(time_ms=100),
    SavepointMade(name="first", timestep=7, time_ms=99, cause="a test"),
    SavepointDropped(name="first", time_ms=99, cause="a test"),
    SourceReset(source="in", before={"0": 9}, after={"0": 4}, time_ms=99, cause="a test"),
    StateEdited(
        operator="counts",
        timestep=7,
        edit=Edit(retire=(((7,), Intervals.everything()),), add=(RUN,)),
        time_ms=99,
        function="fixes:doubled",
        by="ann@host",
        rows=(1, 2, 3),
        cause="a test",
    ),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_an_entry_is_read_as_it_was_written(body):
    entry = Entry(number=12, epoch=2, body=body)
    assert Entry.from_bytes(entry.to_bytes(), name="x") == entry


def test_the_file_says_what_the_documentation_says():
    entry = Entry(number=12, epoch=2, body=Published(timestep=7, sink="out"))
    record = json.loads(entry.to_bytes())
    assert list(record) == ["body", "epoch", "format", "kind", "number", "xxh3"]
    assert record["body"] == {"timestep": 7, "sink": "out"}
    assert (record["format"], record["number"], record["epoch"]) == (2, 12, 2)
    assert record["kind"] == entry.kind == "published"


def test_kinds_have_names_of_their_own():
    kinds = {type(body): Entry(number=1, epoch=1, body=body).kind for body in BODIES}
    assert sorted(kinds.values()) == [
        "closed",
        "committed",
        "configuration_changed",
        "intent",
        "note",
        "notes",
        "opened",
        "published",
        "savepoint_dropped",
        "savepoint_made",
        "source_reset",
        "state_edited",
        "withdrawn",
    ]


@pytest.mark.parametrize(
    ("kind", "body"),
    [("unheard", {}), ("published", {"timestep": 7}), ("closed", {"time_ms": 1, "more": 2})],
)
def test_an_intact_entry_without_sense_is_damage(kind, body):
    data = seal({"format": 1, "number": 1, "epoch": 1, "kind": kind, "body": body})
    with pytest.raises(
        DamagedStateError, match="journal entry 1 has its right checksum but invalid content"
    ):
        Entry.from_bytes(data, name="journal entry 1")


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_an_entry_of_an_earlier_format_is_read(body):
    entry = Entry(number=1, epoch=1, body=body)
    record = {name: one for name, one in json.loads(entry.to_bytes()).items() if name != "xxh3"}
    assert Entry.from_bytes(seal({**record, "format": 1}), name="journal entry 1") == entry


def test_an_entry_of_a_later_format_is_refused():
    data = seal({"format": 9, "anything": "else"})
    with pytest.raises(NewerFormatError, match="journal entry 1 has format 9"):
        Entry.from_bytes(data, name="journal entry 1")


def test_an_intent_names_the_configuration_it_brings():
    with pytest.raises(ValueError, match="version disagree"):
        Intent(
            timestep=1,
            sources={},
            configuration_version=2,
            stream_ms=0,
            configuration=CONFIGURATION,
        )
