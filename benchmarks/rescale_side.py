"""Rechannel's side of `rescale-peer`: a keyed count in one process, rescaled while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
import pyarrow as pa

import rechannel as rc
from benchmarks.clock_source import scattered
from benchmarks.harness import Parameters
from benchmarks.outputs import OutputMeasurement, sampled
from benchmarks.rechannel_side import commits, session, start
from benchmarks.timeline import rows_of
from benchmarks.variant import report
from rechannel import aggregates as agg

OPERATOR = "counts"
SOURCE = "rows"
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class NumberedRows:
    """Row i has a key that is scattered evenly over ``0 <= key < keys``, and its number."""

    keys: int

    def __call__(self, first: int, end: int) -> pa.RecordBatch:
        """The rows ``first <= row < end``."""
        rows = np.arange(first, end, dtype=np.int64)
        return pa.record_batch({"key": scattered(rows, self.keys), "number": rows})


def run(parameters: Parameters) -> OutputMeasurement:
    """Start the job, rescale it, run on."""
    before, after = parameters["tasks"]
    spark = session({**parameters, "tasks": before})
    rows = rc.read(spark).generator(
        NumberedRows(parameters["keys"]),
        schema="key BIGINT, number BIGINT",
        rows_per_second=parameters["rate"],
        name=SOURCE,
    )
    counted = rows.key_by("key").aggregate(
        count=agg.count(), last_row=agg.max("number"), name=OPERATOR, tasks=before
    )
    job = start(parameters, counted, tasks=before)
    while not job.committed_offset(SOURCE).get("rows"):
        job.await_termination(POLL_SECONDS)
    until(job, time.time() + parameters["warmup_seconds"] + parameters["before_seconds"])
    report("now")
    asked = time.time()
    strategy = rc.strategies.fluid(parameters["bins_per_step"])
    job.reconfigure(rc.changes.rescale(OPERATOR, after), strategy).wait(PATIENCE_SECONDS)
    done = time.time()
    report(f"rescaled after {done - asked:.2f} s")
    end_ms = (asked + parameters["during_seconds"] + parameters["after_seconds"]) * 1e3
    until(job, end_ms / 1e3)
    since_ms = catch_up(job, end_ms, parameters["rate"])
    job.stop()
    spark.stop()
    found = rows_of(
        {
            "rate": parameters["rate"],
            "since_ms": since_ms,
            "commits": commits(parameters, SOURCE),
        }
    )
    kept = found.due < end_ms
    return {
        "due_ms": found.due[kept].tolist(),
        "out_ms": (found.due + found.latency)[kept].tolist(),
        "every": sampled(parameters["rate"]),
        "rate": parameters["rate"],
        "asked_ms": asked * 1e3,
        "done_ms": done * 1e3,
        "end_ms": end_ms,
        "repeated": 0,
        "version": f"rechannel {version('rechannel')} on pyspark {version('pyspark')}",
    }


def until(job: rc.RunningJob, when: float) -> None:
    """Let the job run until a time (seconds since 1970)."""
    while (left := when - time.time()) > 0:
        if job.await_termination(min(left, 0.5)):
            raise RuntimeError("the job ended by itself")


def catch_up(job: rc.RunningJob, end_ms: float, rate: int) -> float:
    """Wait until the rows that are due before `end_ms` are committed; since when rows are due, ms."""
    give_up = time.time() + PATIENCE_SECONDS
    while True:
        offset = job.committed_offset(SOURCE)
        since_ms = float(offset["since_ms"])
        if offset["rows"] >= (end_ms - since_ms) * rate / 1e3:
            return since_ms
        if job.await_termination(POLL_SECONDS) or time.time() > give_up:
            raise RuntimeError("the job did not catch up with its input")
