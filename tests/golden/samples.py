"""A small dataflow of every built-in kind of node and operator, for their digests and fingerprints.

The journal identifies the logic of a timestep by digests, so classes, fields and functions that a digest contains keep
the names that they had in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.checks.check import fingerprint
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.identity.logic import dataflow_identity
from rechannel.dataflow.streams.stream import dataflow_of
from tests.golden import program

COLUMNS = "user string, item bigint, price double, at timestamp, note string"


@contextmanager
def connection() -> Iterator[str]:
    yield "open"


def asking(opened: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def generated(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


def by_sql(frame: Any) -> Any:
    return frame.where("price > 1")


def began(key: Any, row: Any) -> Any:
    return (1, row.price)


def smaller(combined: pa.RecordBatch, leaving: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pc.subtract(combined[n], leaving[n]) for n in combined.schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=combined.schema)


def expired_frame(frame: Any) -> Any:
    return None


def table() -> pa.Table:
    return pa.table({"item": pa.array([1], pa.int64()), "name": ["one"]})


def shown(frame: Any, timestep: int) -> None:
    return None


def samples() -> dict[str, dict[str, Any]]:
    """By name, a dataflow: every node's identity, and every operator's fingerprint."""
    flows: dict[str, list[Any]] = {
        "golden": program.flows(program.Feeds(), changed=False),
        "golden-changed": program.flows(program.Feeds(), changed=True),
    }
    for part in (_sources, _stateless, _keyed, _windows, _meetings, _sinks):
        flows.update({name: [end] for name, end in part().items()})
    return {name: _described(ends) for name, ends in flows.items()}


def _described(ends: list[Any]) -> dict[str, Any]:
    dataflow = dataflow_of(*ends)
    schemas = resolve(dataflow, lambda _, inputs: inputs[0] if inputs else table().schema)
    return {"nodes": dataflow_identity(dataflow), "operators": fingerprint(dataflow, schemas)}


def _events() -> Any:
    return rc.read().memory(COLUMNS, name="events")


def _timed() -> Any:
    return _events().event_time("at", delay="2 seconds", name="timed")


def _sources() -> dict[str, Any]:
    read = rc.read()
    return {
        "source-memory": _events(),
        "source-files": read.files("/in/*.parquet", schema=COLUMNS, name="files"),
        "source-json": read.files(
            "/in", format="json", schema="a bigint", options={"multiLine": True}, name="files"
        ),
        "source-letters": read.files(
            "/in", format="csv", schema="a bigint", on_error="dead_letter", name="files"
        ),
        "source-generator": read.generator(generated, schema="n bigint", rows=5, name="generator"),
        "source-handover": read.handover("a bigint", name="handover"),
    }


def _stateless() -> dict[str, Any]:
    events = _events()
    masks = events.branch(cheap=program.cheap, otherwise="others", name="masks")
    sql = events.branch(cheap="price < 2", otherwise="others", name="sql")
    return {
        "select": events.select("user", "*", {"it is": "item"}, more="price", name="n"),
        "computed": events.select(cents=rc.computed(program.whole_cents, "price"), name="n"),
        "map": events.map(program.number_of, "user string, item bigint, n bigint", name="n"),
        "map-letters": events.map(program.number_of, "a string, b bigint", on_error="dead_letter"),
        "flat-map": events.flat_map(program.words, "digit string, item bigint", name="n"),
        "filter": events.filter(program.has_user, name="n"),
        "filter-computed": events.filter(rc.computed(program.is_sold, "price"), name="n"),
        "filter-sql": events.filter("price > 2", name="n"),
        "map-batches": events.map_batches(program.doubled, name="n"),
        "map-batches-letters": events.map_batches(
            program.doubled, name="n", on_error="dead_letter"
        ).dead_letters,
        "resource": events.map_batches(asking, name="n", resource=connection),
        "transform": events.transform(by_sql, name="n"),
        "transform-kept": events.transform(by_sql, name="n", materialise=True),
        "event-time": events.event_time("at", delay="3 seconds", idle="1 minute", name="n"),
        "union": events.union(events, name="n"),
        "branch-masks": masks["cheap"].union(masks["others"], name="n"),
        "branch-sql": sql["cheap"].union(sql["others"], name="n"),
        "lambda": events.filter(lambda row: row.price > 2, name="n"),
    }


def _aggregates() -> dict[str, Any]:
    return {
        "n": agg.count(),
        "users": agg.count("note"),
        "sum": agg.sum("price"),
        "mean": agg.mean("price"),
        "min": agg.min("note"),
        "max": agg.max("price"),
        "variance": agg.variance("price"),
        "variance_all": agg.variance("price", population=True),
        "stddev": agg.stddev("price"),
        "stddev_all": agg.stddev("price", population=True),
        "first": agg.first("note"),
        "first_there": agg.first("note", ignore_nulls=True),
        "last": agg.last("note"),
        "last_there": agg.last("note", ignore_nulls=True),
        "last_n": agg.last_n("note", 3),
        "last_n_there": agg.last_n("note", 3, ignore_nulls=True),
        "distinct": agg.count_distinct("note"),
        "distinct_few": agg.count_distinct("note", k=16),
    }


def _keyed() -> dict[str, Any]:
    events, timed = _events(), _timed()
    keyed, by_time = events.key_by("user"), timed.key_by("user", "item")
    each = {
        f"aggregate-{name}": keyed.aggregate({name: made}, name="n")
        for name, made in _aggregates().items()
    }
    visits = {"state": "n bigint, most double", "name": "n"}
    return {
        **each,
        "aggregate-all": keyed.aggregate(_aggregates(), name="n"),
        "reduce": keyed.running_reduce(program.larger, name="n"),
        "reduce-rows": keyed.running_reduce(max, name="n", rowwise=True),
        "track": keyed.track(program.visits, **visits),
        "track-begins": keyed.track(program.visits, init_state=began, **visits),
        "track-processing": keyed.track(program.visits, timeout=5_000, **visits),
        "track-expired": keyed.track(program.visits, timeout=5, expired=program.left, **visits),
        "track-event": by_time.track(program.visits, timeout="5 seconds", time="event", **visits),
        "track-letters": keyed.track(program.visits, on_error="dead_letter", **visits),
        "track-batches": keyed.track_batches(program.counted, state="n bigint", name="n"),
        "track-batches-event": by_time.track_batches(
            program.counted,
            state="n bigint",
            timeout="5 seconds",
            time="event",
            expired=expired_frame,
            on_error="dead_letter",
            name="n",
        ),
        "top": keyed.top(3, by=("price", "at"), descending=(True, False), name="n"),
        "top-all": keyed.top(None, by="price", rank=None, name="n"),
        "latest": keyed.latest(name="n"),
        "latest-by": keyed.latest(by="at", name="n"),
        "running": keyed.running(
            lag=agg.lag("price", 2, default=1.5),
            change=agg.difference("price", 2),
            n=agg.cumulative(agg.count()),
            name="n",
        ),
        "running-in-order": by_time.running(before=agg.lag("price"), time_column="at", name="n"),
        "deduplicate": events.deduplicate("user", name="n"),
        "deduplicate-within": timed.deduplicate("user", within="5 seconds", name="n"),
        "distinct": events.distinct(name="n"),
        "late": timed.deduplicate("user", within="5 seconds", name="n").late,
    }


def _windows() -> dict[str, Any]:
    keyed = _timed().key_by("user")
    kinds = {
        "tumbling": keyed.window(rc.windows.tumbling("10 seconds")),
        "tumbling-offset": keyed.window(
            rc.windows.tumbling("10 seconds", "3 seconds"), lateness="5 seconds"
        ),
        "tumbling-change": keyed.window(rc.windows.tumbling("10 seconds"), emit="on_update"),
        "tumbling-early": keyed.window(
            rc.windows.tumbling("10 seconds"), emit=rc.every("2 seconds")
        ),
        "tumbling-processing": keyed.window(rc.windows.tumbling("10 seconds"), time="processing"),
        "sliding": keyed.window(rc.windows.sliding("10 seconds", "4 seconds")),
        "sliding-lateness": keyed.window(
            rc.windows.sliding("10 seconds", "5 seconds"), lateness="5 seconds"
        ),
        "sliding-processing": keyed.window(
            rc.windows.sliding("10 seconds", "5 seconds"), time="processing"
        ),
        "sessions": keyed.window(rc.windows.sessions("10 seconds")),
        "sessions-kept": keyed.window(
            rc.windows.sessions("10 seconds"), lateness="5 seconds", emit=rc.every("1 second")
        ),
        "sessions-change": keyed.window(rc.windows.sessions("10 seconds"), emit="on_update"),
        "sessions-processing": keyed.window(rc.windows.sessions("10 seconds"), time="processing"),
        "counting": keyed.window(rc.windows.counting(6, 2)),
        "counting-in-order": keyed.window(rc.windows.counting(6), time_column="at"),
        "whole-stream": _timed().window(rc.windows.tumbling("10 seconds")),
    }
    made = {f"{k}-n": window.aggregate(n=agg.count(), name="n") for k, window in kinds.items()}
    for kind in ("tumbling", "sliding", "sessions", "tumbling-processing", "counting"):
        made[f"{kind}-all"] = kinds[kind].aggregate(_aggregates(), name="n")
    for kind in ("tumbling", "sliding", "sessions"):
        made[f"{kind}-reduce"] = kinds[kind].reduce(program.larger, name="n")
        made[f"{kind}-apply"] = kinds[kind].apply_batches(program.span, "rows bigint", name="n")
    made["sliding-inverse"] = kinds["sliding"].reduce(program.larger, inverse=smaller, name="n")
    tumbling, sliding = kinds["tumbling"], kinds["sliding"]
    made["window-top"] = tumbling.top(2, by="price", ties=True, ranking="rank", name="n")
    made["sliding-top"] = sliding.top(None, by="price", ranking="dense_rank", name="n")
    made["same-window"] = (
        made["tumbling-n"].window(rc.windows.same_window()).top(1, by="n", name="m")
    )
    return made


def _meetings() -> dict[str, Any]:
    left = _timed()
    right = rc.read().memory("item bigint, offer double, at timestamp", name="offers")
    right = right.event_time("at", name="offers-timed")
    within = {"within": rc.between("-3 seconds", "4 seconds"), "name": "n"}
    hows = ("inner", "left", "right", "full", "semi", "anti")
    return {
        **{f"join-{how}": left.join(right, "item", how=how, **within) for how in hows},
        "join-for-ever": left.join(right, "item", name="n"),
        "join-windows": left.join(
            right, {"item": "item"}, within=rc.windows.tumbling("5 seconds"), name="n"
        ),
        "asof": left.asof_join(right, "item", name="n"),
        "asof-inner": left.asof_join(right, "item", how="inner", tolerance="3 seconds", name="n"),
        "lookup": left.lookup(right, "item", by="offer", name="n"),
        "lookup-left": left.lookup(right, "item", how="left", suffix="_there", name="n"),
        "lookup-table": left.lookup(table, "item", refresh="1 minute", name="n"),
        "cogroup": left.cogroup(right, "item").apply_batches(
            program.both, "sold bigint, offered bigint", name="n"
        ),
        "cogroup-windows": left.cogroup(
            right, "item", within=rc.windows.tumbling("5 seconds")
        ).apply_batches(program.both, "sold bigint, offered bigint", name="n"),
    }


def _sinks() -> dict[str, Any]:
    events = _events()
    patient = events.write.on_failure("dead_letter", path="/letters", attempts=3)
    return {
        "sink-memory": events.write.memory("t"),
        "sink-parquet": events.write.parquet("/out", compression="zstd"),
        "sink-json": events.write.json("/out"),
        "sink-letters": patient.csv("/out", name="s"),
        "sink-partitions": events.write.format("orc").partition_by("item").save("/out"),
        "sink-timesteps": events.write.format("parquet").timesteps_as("batch").save("/out"),
        "sink-noop": events.write.noop(),
        "sink-console": events.write.console(),
        "sink-batches": events.write.for_each_batch(shown),
    }
