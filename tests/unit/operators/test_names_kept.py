"""Digests and fingerprints of every operator stay: journals have them, and a job goes on only if they agree.

Values hold on every version of Python: the functions below are built in, so no bytecode counts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.checks.check import fingerprint
from rechannel.dataflow.identity.logic import dataflow_identity
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.sources.connectors import MemoryConnector

KEPT = Path(__file__).with_name("names_kept.json")
ROWS = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])
OTHERS = pa.schema([("k", pa.int64()), ("w", pa.int64()), ("u", pa.timestamp("us", "UTC"))])


def rows(name: str = "rows", schema: pa.Schema = ROWS, time: str = "t") -> Stream:
    read = rc.read().memory(MemoryConnector(schema=schema), name=name)
    return read.event_time(time, delay="1 second")


def others() -> Stream:
    return rows("others", OTHERS, "u")


def windows() -> dict[str, Stream]:
    """Every kind of window, shown in every way."""
    keyed, n = rows().key_by("k"), {"n": agg.count(), "s": agg.sum("v")}
    tumbling, sliding = (
        rc.windows.tumbling("10 seconds", "1 second"),
        rc.windows.sliding("9 seconds", "6 seconds"),
    )
    change: Any = {"lateness": "1 second"}
    counted = keyed.window(rc.windows.tumbling("10 seconds")).aggregate(n, name="inner")
    return {
        "tumbling": keyed.window(tumbling).aggregate(n),
        "tumbling late": keyed.window(tumbling, **change).aggregate(n),
        "tumbling early": keyed.window(tumbling, emit=rc.every("5 seconds")).aggregate(n),
        "tumbling processing": keyed.window(tumbling, time="processing").aggregate(n),
        "tumbling reduce": keyed.window(tumbling).reduce(max),
        "sliding": keyed.window(sliding).aggregate(n),
        "sliding copies": keyed.window(sliding, **change).aggregate(n),
        "sliding ordered": keyed.window(sliding).aggregate(first=agg.first("v")),
        "sliding processing": keyed.window(sliding, time="processing").aggregate(n),
        "sliding reduce": keyed.window(sliding).reduce(max, inverse=min),
        "sliding keyless": rows().window(sliding).aggregate(n),
        "sessions": keyed.window(rc.windows.sessions("3 seconds"), **change).aggregate(n),
        "sessions ordered": keyed.window(rc.windows.sessions("3 seconds")).aggregate(
            f=agg.first("v")
        ),
        "sessions processing": keyed.window(rc.windows.sessions(5), time="processing").aggregate(n),
        "sessions apply": keyed.window(rc.windows.sessions(5)).apply_batches(len, "x BIGINT"),
        "counting": keyed.window(rc.windows.counting(10)).aggregate(n),
        "counting by time": keyed.window(rc.windows.counting(10, 4), time_column="t").aggregate(n),
        "inherited": counted.window(rc.windows.same_window()).aggregate(total=agg.sum("n")),
        "inherited top": counted.window(rc.windows.same_window()).top(3, by="n"),
        "top": keyed.window(tumbling).top(3, by="v", ties=True),
        "sliding top": keyed.window(sliding).top(3, by="v", ranking="dense_rank"),
        "apply": keyed.window(tumbling).apply_batches(len, "x BIGINT"),
        "sliding apply": keyed.window(sliding).apply_batches(len, "x BIGINT"),
    }


def kept_by_key() -> dict[str, Stream]:
    """Operators of one stream without windows."""
    keyed = rows().key_by("k")
    timed: Any = {"time": "event", "timeout": "5 seconds"}
    return {
        "aggregate": keyed.aggregate(n=agg.count(), m=agg.mean("v"), l=agg.last_n("v", 3)),
        "reduce": keyed.running_reduce(max),
        "reduce rowwise": keyed.running_reduce(max, rowwise=True),
        "track": keyed.track(len, state="n BIGINT"),
        "track timed": keyed.track(len, state="n BIGINT", expired=max, **timed),
        "track shown": keyed.track(len, state="n BIGINT", expired=max, timeout=500),
        "track batches": keyed.track_batches(len, state="n BIGINT", timeout=500),
        "track apart": keyed.track_batches(len, state="n BIGINT", on_error="dead_letter"),
        "deduplicate": rows().deduplicate("k"),
        "deduplicate within": rows().deduplicate("k", within="5 seconds"),
        "latest": keyed.latest("v"),
        "top": keyed.top(2, by="v"),
        "running": keyed.running(before=agg.lag("v"), n=agg.cumulative(agg.count())),
        "running by time": keyed.running(time_column="t", d=agg.difference("v")),
    }


def met() -> dict[str, Stream]:
    """Operators of two streams."""
    tumbling, sliding = (
        rc.windows.tumbling("10 seconds"),
        rc.windows.sliding("9 seconds", "3 seconds", "1 second"),
    )
    table = pa.table({"k": [1], "name": ["one"]})
    return {
        "join": rows().join(others(), "k"),
        "join between": rows().join(others(), "k", how="full", within=rc.between(-5, "3 seconds")),
        "join tumbling": rows().join(others(), "k", how="left", within=tumbling),
        "join sliding": rows().join(others(), {"k": "k", "v": "w"}, within=sliding),
        "asof": rows().asof_join(others(), "k", tolerance="5 seconds"),
        "cogroup": rows().cogroup(others(), "k").apply_batches(len, "x BIGINT"),
        "cogroup tumbling": rows()
        .cogroup(others(), "k", within=tumbling)
        .apply_batches(len, "x BIGINT"),
        "cogroup sliding": rows()
        .cogroup(others(), "k", within=sliding)
        .apply_batches(len, "x BIGINT"),
        "lookup": rows().lookup(table, "k", how="left"),
        "lookup stream": rows().lookup(others(), "k", by="u"),
    }


def said() -> dict[str, Any]:
    """What is written of every dataflow: of its nodes, and of the state of its operators."""
    out = {}
    for family in (windows, kept_by_key, met):
        for name, stream in family().items():
            dataflow = dataflow_of(stream.write.noop())
            out[f"{family.__name__}: {name}"] = {
                "nodes": dataflow_identity(dataflow),
                "state": fingerprint(dataflow),
            }
    return out


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return said()


@pytest.mark.parametrize("name", sorted(json.loads(KEPT.read_text())))
def test_what_journals_hold_of_an_operator_stays(name: str, now: dict[str, Any]) -> None:
    assert now[name] == json.loads(KEPT.read_text())[name]


def test_every_operator_is_in_the_file(now: dict[str, Any]) -> None:
    assert now.keys() == json.loads(KEPT.read_text()).keys()
