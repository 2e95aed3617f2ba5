"""What would give stored state another meaning is refused, live and at a start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import OtherDataflowError, RefusedError
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = "k STRING, v BIGINT, at TIMESTAMP, seen TIMESTAMP"


def added(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"v": pc.add(one["v"], other["v"])})


def plus_one(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"v": pc.add(pc.add(one["v"], other["v"]), 1)})


def less(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"v": pc.subtract(one["v"], other["v"])})


def spread(frame: Any) -> dict[str, Any]:
    return {"n": frame.count()}


def as_text(rows: pa.Table) -> pa.Table:
    return rows.set_column(1, "v", rows["v"].cast(pa.string()))


def as_lists(rows: pa.Table) -> pa.Table:
    lists = pa.array([[value] for value in rows["v"].to_pylist()], pa.list_(pa.int64()))
    return rows.set_column(1, "v", lists)


def as_large_lists(rows: pa.Table) -> pa.Table:
    lists = pa.array([[value] for value in rows["v"].to_pylist()], pa.large_list(pa.int64()))
    return rows.set_column(1, "v", lists)


def same(rows: pa.Table) -> pa.Table:
    return rows


def distinct(stream: Any, function: Any, kind: str) -> Any:
    made = stream.map_batches(function, schema=ROWS.replace("v BIGINT", f"v {kind}"), name="made")
    return made.key_by("k").aggregate(users=agg.count_distinct("v"), name="op")


def last(stream: Any, function: Any, kind: pa.DataType) -> Any:
    columns = [pa.field("k", pa.string()), pa.field("v", kind)]
    times = [pa.field(name, pa.timestamp("us", "UTC")) for name in ("at", "seen")]
    made = stream.map_batches(function, schema=pa.schema([*columns, *times]), name="made")
    return made.key_by("k").aggregate(last=agg.first("v"), name="op")


def sessions(stream: Any, gap: str) -> Any:
    windows = stream.event_time("at").key_by("k").window(rc.windows.sessions(gap))
    return windows.apply_batches(spread, "n BIGINT", name="op")


def once(stream: Any, on: str) -> Any:
    return stream.event_time(on).deduplicate("k", within="1 hour", name="op")


def reduced(stream: Any, function: Any) -> Any:
    numbers = stream.select("k", "v", "at").event_time("at").key_by("k")
    windows = numbers.window(rc.windows.sliding("6 seconds", "1 second"))
    return windows.reduce(function, inverse=less, name="op")


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], str, str | None]] = {
    "count_distinct": (
        distinct,
        (same, "BIGINT"),
        (as_text, "STRING"),
        "'users' was CountDistinct",
        "'users' would change from bigint to string",
    ),
    "lists": (
        last,
        (as_lists, pa.list_(pa.int64())),
        (as_large_lists, pa.large_list(pa.int64())),
        "'last' was",
        "written with other Arrow types of the same SQL types",
    ),
    "sessions": (
        sessions,
        ("10 seconds",),
        ("30 seconds",),
        "its windows cannot change",
        "'op' was apply",
    ),
    "deduplicate": (
        once,
        ("at",),
        ("seen",),
        "its windows cannot change, nor which rows it keeps",
        "would change from 3600000000 by at to 3600000000 by seen",
    ),
    "reduce": (reduced, (added,), (plus_one,), "combined with the present function", None),
}


def harness_of(source: Any, store: MemoryStore, build: Callable[..., Any], how: Any) -> Harness:
    return Harness(flow(source, build, how), store=store, settings=Settings(tasks=2))


def flow(source: Any, build: Callable[..., Any], how: Any) -> Any:
    return build(rc.read().memory(source, name="in"), *how).write.memory("out", name="out")


def feed(source: Any, harness: Harness, *seconds: float) -> None:
    times = [EPOCH + timedelta(seconds=second) for second in seconds]
    source.push([{"k": "a", "v": n, "at": at, "seen": at} for n, at in enumerate(times)])
    harness.process.run()


@pytest.mark.parametrize("name", CASES)
def test_live(name: str) -> None:
    build, before, after, words, _ = CASES[name]
    source = script(ROWS)
    harness = harness_of(source, MemoryStore(), build, before)
    harness.start()
    feed(source, harness, 1, 2, 3)
    with pytest.raises(RefusedError, match=words):
        harness.process.reconfigure(rc.changes.change_dataflow(flow(source, build, after)))
    feed(source, harness, 100, 200)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[-1]])
def test_at_a_start(name: str) -> None:
    build, before, after, _, words = CASES[name]
    source, store = script(ROWS), MemoryStore()
    harness = harness_of(source, store, build, before)
    harness.start()
    feed(source, harness, 1, 2, 3)
    harness.process.stop()
    with pytest.raises(OtherDataflowError, match=words):
        harness_of(source, store, build, after).start()
    harness_of(source, store, build, before).start()


def test_totals_of_other_functions_are_not_continued():
    """What `plus_one` added too much leaves with its windows: totals are made anew of the panes."""
    source, store = script(ROWS), MemoryStore()
    harness = harness_of(source, store, reduced, (plus_one,))
    harness.start()
    for second in range(20):
        feed(source, harness, second, second)
    harness.process.stop()
    mended = harness_of(source, store, reduced, (added,))
    mended.start()
    for second in range(20, 40):
        feed(source, mended, second, second)
    again = script(ROWS)
    twin = harness_of(again, MemoryStore(), reduced, (added,))
    twin.start()
    for second in range(40):
        feed(again, twin, second, second)
    assert settled(mended) == settled(twin)


def settled(harness: Harness) -> list[dict[str, Any]]:
    """Windows that ended long after the change."""
    rows = pa.concat_tables(harness.outputs("out").values()).to_pylist()
    late = EPOCH + timedelta(seconds=28)
    return [row for row in rows if row["window_end"] > late]
