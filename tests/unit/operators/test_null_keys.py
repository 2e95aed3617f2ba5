"""Keys that share the hash of a null."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.model.hashing import hash_columns
from rechannel.testing import Harness, script

LIKE_NULL = 7_997_738_013_315_500_161
"""A whole number whose hash is that of a null."""


def test_there_is_such_a_number():
    hashes = hash_columns([pa.array([None, LIKE_NULL], pa.int64())])
    assert hashes[0] == hashes[1]


def counted(key: int | None, rows: Any, context: Any) -> list[tuple[int]]:
    seen = context.value("seen")
    seen.set(seen.get(0) + len(rows))
    return [(seen.get(),)]


def by_process(stream: Any) -> Any:
    states = {"seen": rc.states.value_state("seen BIGINT")}
    return stream.process(counted, schema="n BIGINT", states=states, name="counted")


def by_sessions(stream: Any) -> Any:
    return stream.window(rc.windows.sessions("1 hour")).aggregate(n=agg.count(), name="counted")


@pytest.mark.parametrize("way", [by_process, by_sessions])
@pytest.mark.parametrize("first", [None, LIKE_NULL])
def test_a_key_does_not_see_the_state_of_null(first, way):
    source = script("k BIGINT, at TIMESTAMP")
    stream = rc.read().memory(source, name="in").event_time("at", "1 day").key_by("k")
    harness = Harness(way(stream).write.memory("out", name="out"))
    harness.start()
    second = LIKE_NULL if first is None else None
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number, key in enumerate((first, second, first)):
        source.push([{"k": key, "at": begin + timedelta(minutes=number)}])
        harness.process.run()
    source.push([{"k": 1, "at": begin + timedelta(days=9)}])
    harness.process.run()
    rows = [row for _, table in sorted(harness.outputs("out").items()) for row in table.to_pylist()]
    counts = {key: max(row["n"] for row in rows if row["k"] == key) for key in (first, second)}
    assert counts == {first: 2, second: 1}
