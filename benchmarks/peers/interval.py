"""A keyed count over rows whose rate changes in steps, with a processingTime trigger, with RocksDB."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from benchmarks.batch_interval import ends_at, source_options
from benchmarks.harness import Measurement, Parameters
from benchmarks.peers.latency import COMMITS_KEPT, commit_of, counted
from benchmarks.peers.streaming import POLL_SECONDS, PROGRESS_KEPT, ROCKSDB
from benchmarks.session import session
from benchmarks.stepped_source import SteppedSource
from benchmarks.variant import report


def run(parameters: Parameters) -> Measurement:
    """Run until all steps of load are over."""
    spark = session(parameters, {**PROGRESS_KEPT, **COMMITS_KEPT, **ROCKSDB})
    spark.dataSource.register(SteppedSource)
    start_ns = time.time_ns()
    reader = spark.readStream.format(SteppedSource.name())
    rows = reader.options(**source_options(parameters, start_ns)).load()
    checkpoint = Path(parameters["scratch"]) / "checkpoint"
    interval = parameters["interval_ms"]
    query = (
        counted(rows)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{interval} milliseconds")
        .start()
    )
    until = ends_at(parameters, start_ns)
    while time.time_ns() < until:
        if query.awaitTermination(POLL_SECONDS):
            raise RuntimeError("the query ended before its input did")
        last = query.lastProgress
        report(f"batch {-1 if last is None else last.batchId}")
    batches = [p for p in query.recentProgress if p.numInputRows > 0]
    query.stop()
    timesteps = []
    for batch in batches:
        first, end, committed_ns = commit_of(batch, checkpoint)
        began = datetime.fromisoformat(batch.timestamp.replace("Z", "+00:00"))
        started_ms = round(began.timestamp() * 1e3)
        timesteps.append(
            [
                batch.batchId + 1,
                started_ms,
                committed_ns // 1_000_000,
                batch.batchDuration,
                first,
                end,
            ]
        )
    spark.stop()
    return {
        "start_ns": start_ns,
        "first_interval": interval,
        "changes": [],
        "timesteps": timesteps,
    }
