"""Structured Streaming with RocksDB: words counted, or lines found, while hosts fail.

The same source, cluster, session and interval. The checkpoint is on the local disk, which all hosts see.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.failing_hosts import Failing, failing_cluster, failing_session
from benchmarks.harness import Measurement, Parameters
from benchmarks.line_source import WANTED, LineSource
from benchmarks.peers.latency import COMMITS_KEPT, commit_of, end_offset
from benchmarks.peers.streaming import PROGRESS_KEPT, ROCKSDB
from benchmarks.variant import report

POLL_SECONDS = 1


def result(spark: SparkSession, start_ns: int, parameters: Parameters) -> DataFrame:
    """The query."""
    lines = (
        spark.readStream.format(LineSource.name())
        .option("start_ns", start_ns)
        .option("rate", parameters["rate"])
        .option("words", parameters["words"])
        .option("partitions", parameters["partitions"])
        .load()
    )
    if parameters["workload"] == "grep":
        return lines.filter(F.col("line").contains(WANTED))
    return lines.select(F.explode(F.split("line", " ")).alias("word")).groupBy("word").count()


def run(parameters: Parameters) -> Measurement:
    """Run, let hosts fail, run on."""
    with failing_cluster(parameters) as cluster:
        spark = failing_session(cluster, parameters)
        for name, value in {**PROGRESS_KEPT, **COMMITS_KEPT, **ROCKSDB}.items():
            spark.conf.set(name, value)
        spark.conf.set("spark.sql.shuffle.partitions", str(parameters["tasks"]))
        spark.dataSource.register(LineSource)
        start_ns = time.time_ns()
        checkpoint = Path(parameters["scratch"]) / "checkpoint"
        query = (
            result(spark, start_ns, parameters)
            .writeStream.format("noop")
            .outputMode("append" if parameters["workload"] == "grep" else "update")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime=f"{parameters['interval_ms']} milliseconds")
            .start()
        )
        failing = Failing(spark, cluster, parameters)
        failing.start()
        seconds = sum(parameters[f"{part}_seconds"] for part in ("warmup", "before", "after"))
        lines, done = seconds * parameters["rate"], 0
        while done < lines:
            if query.awaitTermination(POLL_SECONDS):
                raise RuntimeError("the query ended before it had read all lines")
            last = query.lastProgress
            done = end_offset(last) if last is not None else 0
            report(f"{done} of {lines} lines")
        told = failing.told()
        batches = [p for p in query.recentProgress if p.numInputRows > 0]
        query.stop()
        known = [commit_of(progress, checkpoint) for progress in batches]
        began = [
            at - progress.batchDuration * 1_000_000
            for (_, _, at), progress in zip(known, batches, strict=True)
        ]
        spark.stop()
    return {"start_ns": start_ns, "commits": known, "began_ns": began, **told}
