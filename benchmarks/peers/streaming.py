"""Running a Structured Streaming query and reading what Spark itself says about every batch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.harness import Parameters
from benchmarks.inputs import SCHEMA, batch_glob
from benchmarks.measurements import BatchMeasurement
from benchmarks.processor import ProcessorTime
from benchmarks.variant import report

HDFS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting keys costs a look-up per write; Spark's guide says to switch it off for speed.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
PROGRESS_KEPT = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
POLL_SECONDS = 1


def read_batches(spark: SparkSession, parameters: Parameters) -> DataFrame:
    """The stream of the first ``batches`` batches below ``input``, ``files`` files per batch."""
    return (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", parameters["files"])
        .option("pathGlobFilter", batch_glob(parameters["batches"]))
        .parquet(str(parameters["input"]))
    )


def measure_batches(
    result: DataFrame,
    parameters: Parameters,
    *,
    mode: str = "update",
    watched: ProcessorTime | None = None,
) -> BatchMeasurement:
    """Run all batches of `result` without a pause, throw the output away, and time each batch.

    The times are `StreamingQueryProgress.batchDuration`: from the start of a batch, planning and
    logs included, until its commit is written. watched: tells the processor time of every batch.
    """
    query = (
        result.writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(Path(parameters["scratch"]) / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    while not query.awaitTermination(POLL_SECONDS):
        report_batch(query, parameters)
    batches = [p for p in query.recentProgress if p.numInputRows > 0]
    measurement: BatchMeasurement = {
        "seconds": [p.batchDuration / 1_000 for p in batches],
        "rows": [p.numInputRows for p in batches],
        "latencies": [p.batchDuration / 1_000 for p in batches],
        "phases": phases(batches),
    }
    if watched is not None:
        watched.sample()
        spans = [(begin, begin + p.batchDuration * 1e6) for p in batches for begin in (began(p),)]
        measurement["processor"] = [watched.between(*span) for span in spans]
    return measurement


def began(batch: StreamingQueryProgress) -> float:
    """When a batch began, ns since 1970, to the millisecond."""
    return datetime.fromisoformat(batch.timestamp).timestamp() * 1e9


def phases(batches: Sequence[StreamingQueryProgress]) -> dict[str, list[float]]:
    """What Spark says of where the time of each batch went, in ms; a phase it left out took 0."""
    names = sorted({name for batch in batches for name in batch.durationMs})
    return {name: [float(batch.durationMs.get(name, 0)) for batch in batches] for name in names}


def report_batch(query: StreamingQuery, parameters: Parameters) -> None:
    """Tell the waiting human which batch was done last."""
    last = query.lastProgress
    if last is not None:
        report(f"batch {last.batchId + 1} of {parameters['batches']}")
