"""Rechannel's side of `kafka` and `kafka-latency`: totals per user, from topic to topic."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import rechannel as rc
from benchmarks.harness import Measurement, Parameters
from benchmarks.kafka_topics import (
    SCHEMA,
    check_totals,
    clocked_producer,
    create,
    waits,
)
from benchmarks.rechannel_side import ENTRIES_KEPT, entries, session
from benchmarks.variant import report
from rechannel import aggregates as agg

POLL_SECONDS = 0.02


def start(parameters: Parameters, topic: str, out: str) -> rc.RunningJob:
    """Start the job."""
    bootstrap, exactly_once = parameters["bootstrap"], parameters["exactly_once"]
    records = rc.read(session(parameters)).kafka(
        bootstrap, topic, per_timestep=parameters["per_batch"], name="in"
    )
    counted = (
        records.decode_json(SCHEMA)
        .key_by("user")
        .aggregate(
            n=agg.count(), total=agg.sum("amount"), latest_ms=agg.max("created_ms"), name="totals"
        )
    )
    settings = rc.Settings(
        tasks=parameters["tasks"],
        durability=rc.Durability(parameters["durability"]),
        in_flight=parameters["in_flight"],
        inline_rows=parameters.get("inline_rows", 0),
        publish_backlog=parameters.get("publish_backlog", 8),
        snapshot_every=ENTRIES_KEPT,
    )
    flow = counted.write.kafka(bootstrap, out, key="user", exactly_once=exactly_once, name="out")
    state = Path(parameters["scratch"]) / "state"
    return rc.Job("benchmark", flow, state=state, settings=settings).start()


def throughput(parameters: Parameters) -> Measurement:
    """Process all that there is; when each batch was committed, and the last one published."""
    out = Path(parameters["scratch"]).parent.name.replace(" ", "-")
    create(parameters["bootstrap"], out, parameters["partitions"])
    job = start(parameters, "in", out)
    batches = -(-parameters["rows"] // parameters["per_batch"])
    while (done := job.status.timestep or 0) < batches:
        if job.await_termination(POLL_SECONDS):
            raise RuntimeError("the job ended before its input did")
        report(f"{done} of {batches} timesteps")
    job.process_all_available()
    published = time.time()
    job.stop()
    committed = [*entries(parameters, "committed")]
    rows = [_rows(body) for body, _ in committed]
    ended = [*(at / 1e9 for _, at in committed[:-1]), published]
    check_totals(parameters["bootstrap"], out, parameters, committed=parameters["exactly_once"])
    return {"ended": ended, "rows": rows}


def _rows(body: Measurement) -> int:
    offsets: dict[str, Any] = body["offsets"]["in"]["topics"]
    return sum(sum(topic["next"].values()) for topic in offsets.values())


def latency(parameters: Parameters) -> Measurement:
    """Follow a producer that keeps to the clock."""
    bootstrap = parameters["bootstrap"]
    name = Path(parameters["scratch"]).parent.name.replace(" ", "-")
    for topic in (f"{name}-in", f"{name}-out"):
        create(bootstrap, topic, parameters["partitions"])
    with clocked_producer(bootstrap, f"{name}-in", parameters):
        job = start(parameters, f"{name}-in", f"{name}-out")
        found = waits(bootstrap, f"{name}-out", parameters, committed=parameters["exactly_once"])
        job.stop()
    return {"waits": found}
