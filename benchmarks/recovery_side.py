"""Rechannel's side of `recovery`: words counted, or lines found, while hosts fail."""

from __future__ import annotations

import time
from pathlib import Path

import rechannel as rc
from benchmarks.failing_hosts import Failing, failing_cluster, failing_session
from benchmarks.harness import Measurement, Parameters
from benchmarks.line_source import WORDS
from benchmarks.rechannel_side import ENTRIES_KEPT, commits, intents
from benchmarks.recovery_flow import flow
from benchmarks.variant import report

POLL_SECONDS = 0.1


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
