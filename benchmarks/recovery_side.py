"""Rechannel's side of `recovery`: words counted, or lines found, while hosts fail."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from benchmarks.failing_hosts import Failing, failing_cluster, failing_session
from benchmarks.harness import Measurement, Parameters
from benchmarks.line_source import WANTED, WORDS, LineSource
from benchmarks.rechannel_side import ENTRIES_KEPT, commits, intents
from benchmarks.variant import report
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream

POLL_SECONDS = 0.1


def words(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The words of lines, one by one."""
    return pa.record_batch({"word": pc.list_flatten(pc.split_pattern(rows.column("line"), " "))})


def wanted(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The lines that contain what is looked for."""
    return rows.filter(pc.match_substring(rows.column("line"), WANTED))


def flow(spark: Any, start_ns: int, parameters: Parameters) -> Stream:
    """The dataflow."""
    options = {name: parameters[name] for name in ("rate", "words", "partitions")}
    lines = rc.read(spark).python(
        LineSource, options={"start_ns": start_ns, **options}, name="lines"
    )
    if parameters["workload"] == "grep":
        return lines.map_batches(wanted, schema="line string", name="found")
    counted = lines.map_batches(words, schema="word string", name="words").key_by("word")
    return counted.aggregate(count=agg.count(), name="counts", tasks=parameters["tasks"])


def run(parameters: Parameters) -> Measurement:
    """Run, let hosts fail, run on, and check that every word was counted once."""
    with failing_cluster(parameters) as cluster:
        spark = failing_session(cluster, parameters)
        start_ns = time.time_ns()
        settings = rc.Settings(
            tasks=parameters["partitions"],
            interval_ms=parameters["interval_ms"],
            durability=rc.Durability(parameters["durability"]),
            snapshot_every=ENTRIES_KEPT,
        )
        state = Path(parameters["scratch"]) / "state"
        stream = flow(spark, start_ns, parameters)
        job = rc.Job("benchmark", stream.write.noop(), state=state, settings=settings).start()
        failing = Failing(spark, cluster, parameters)
        failing.start()
        seconds = sum(parameters[f"{part}_seconds"] for part in ("warmup", "before", "after"))
        lines = seconds * parameters["rate"]
        while (done := job.committed_offset("lines").get("rows", 0)) < lines:
            if job.await_termination(POLL_SECONDS):
                raise RuntimeError("the job ended before it had read all lines")
            report(f"{done} of {lines} lines")
        told = failing.told()
        job.stop()
        counted: int | None = None
        if parameters["workload"] == "words":
            (row,) = job.state("counts").selectExpr("sum(count) AS words").collect()
            counted = int(row.words)
        read = int(job.committed_offset("lines")["rows"])
        spark.stop()
    if counted not in {None, read * WORDS}:
        raise RuntimeError(f"{counted} words were counted of {read * WORDS}")
    known = [*commits(parameters, "lines")]
    return {"start_ns": start_ns, "commits": known, "began_ns": intents(parameters), **told}
