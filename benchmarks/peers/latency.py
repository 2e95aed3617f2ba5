"""A keyed count over the clock-driven source, as fast as possible, with RocksDB.

Nothing is added to the query to measure it: which rows a batch held follows from its offsets, and
when each row was created follows from the row's number. A batch counts as committed from the moment
at which its commit file got its name, which comes before the end that Spark itself reports.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.clock_source import ClockSource
from benchmarks.harness import Parameters
from benchmarks.measurements import LatencyMeasurement
from benchmarks.peers.streaming import POLL_SECONDS, PROGRESS_KEPT, ROCKSDB, phases
from benchmarks.session import session
from benchmarks.variant import report

COMMITS_KEPT = {"spark.sql.streaming.minBatchesToRetain": "100000"}


def run(parameters: Parameters) -> LatencyMeasurement:
    """Run for ``warmup_seconds + seconds``, and on until the last row due by then is committed."""
    spark = session(parameters, {**PROGRESS_KEPT, **COMMITS_KEPT, **ROCKSDB})
    spark.dataSource.register(ClockSource)
    start_ns = time.time_ns()
    checkpoint = Path(parameters["scratch"]) / "checkpoint"
    query = start(counted(read_clock(spark, parameters, start_ns)), checkpoint)
    seconds = parameters["warmup_seconds"] + parameters["seconds"]
    follow(query, seconds * parameters["rate"])
    batches = [p for p in query.recentProgress if p.numInputRows > 0]
    query.stop()
    spark.stop()
    return {
        "start_ns": start_ns,
        "commits": [commit_of(p, checkpoint) for p in batches],
        "phases": phases(batches),
    }


def read_clock(spark: SparkSession, parameters: Parameters, start_ns: int) -> DataFrame:
    """The stream of rows that exist from `start_ns` on."""
    return (
        spark.readStream.format(ClockSource.name())
        .option("start_ns", start_ns)
        .option("rate", parameters["rate"])
        .option("keys", parameters["keys"])
        .option("partitions", parameters["partitions"])
        .load()
    )


def counted(rows: DataFrame) -> DataFrame:
    """Rows per ``key``."""
    return rows.groupBy("key").count()


def start(result: DataFrame, checkpoint: Path) -> StreamingQuery:
    """Start the query; a batch follows the one before it at once."""
    return (
        result.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )


def follow(query: StreamingQuery, rows: int) -> None:
    """Wait until the first `rows` rows are committed; raises the error of a query that failed."""
    committed = 0
    while committed < rows:
        if query.awaitTermination(POLL_SECONDS):
            raise RuntimeError("the query ended before it had read all rows")
        last = query.lastProgress
        if last is not None:
            committed = end_offset(last)
            report(f"{committed} of {rows} rows")


def commit_of(progress: StreamingQueryProgress, checkpoint: Path) -> tuple[int, int, int]:
    """First row, row after the last, and when the batch was committed, in ns since 1970."""
    commit = checkpoint / "commits" / str(progress.batchId)
    # Renaming the finished file into place is the last change of its inode.
    return start_offset(progress), end_offset(progress), commit.stat().st_ctime_ns


def start_offset(progress: StreamingQueryProgress) -> int:
    """How many rows were read before the batch."""
    offset = progress.sources[0].startOffset
    return int(json.loads(offset)["rows"]) if offset and offset != "null" else 0


def end_offset(progress: StreamingQueryProgress) -> int:
    """How many rows were read after the batch."""
    return int(json.loads(progress.sources[0].endOffset)["rows"])
