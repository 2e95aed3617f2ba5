"""Structured Streaming with its own connector and RocksDB: totals per user, from topic to topic, at least once.

Its sink knows no transactions. The real-time mode is Spark 4.3's `trigger(realTime=...)`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.harness import Measurement, Parameters
from benchmarks.kafka_topics import (
    CONNECTOR,
    SCHEMA,
    check_totals,
    clocked_producer,
    create,
    waits,
)
from benchmarks.peers.streaming import POLL_SECONDS, PROGRESS_KEPT, ROCKSDB
from benchmarks.session import session
from benchmarks.variant import report


def open_session(parameters: Parameters) -> SparkSession:
    """Return a session with the connector."""
    from tests.real.components.jars import resolved

    folder = resolved("spark-kafka", CONNECTOR)
    ours = {path.name for path in (Path(str(_pyspark())) / "jars").iterdir()}
    jars = ",".join(str(each) for each in folder.glob("*.jar") if each.name not in ours)
    return session(parameters, {**PROGRESS_KEPT, **ROCKSDB, "spark.jars": jars})


def _pyspark() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def result(spark: SparkSession, topic: str, parameters: Parameters) -> DataFrame:
    """Return totals per user, as records."""
    options = {
        "kafka.bootstrap.servers": parameters["bootstrap"],
        "subscribe": topic,
        "startingOffsets": "earliest",
        # Without it, every batch joins a new consumer group.
        "kafka.group.id": topic,
    }
    if parameters["per_batch"]:
        options["maxOffsetsPerTrigger"] = str(parameters["per_batch"])
    values = spark.readStream.format("kafka").options(**options).load()
    parsed = values.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v"))
    counted = (
        parsed.select("v.*")
        .groupBy("user")
        .agg(
            F.count("*").alias("n"),
            F.sum("amount").alias("total"),
            F.max("created_ms").alias("latest_ms"),
        )
    )
    return counted.select(
        F.col("user").cast("string").alias("key"),
        F.to_json(F.struct("user", "n", "total", "latest_ms")).alias("value"),
    )


def start(frame: DataFrame, out: str, parameters: Parameters, **trigger: Any) -> Any:
    """Start the query."""
    return (
        frame.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", parameters["bootstrap"])
        .option("topic", out)
        .option("checkpointLocation", str(Path(parameters["scratch"]) / "checkpoint"))
        .outputMode("update")
        .trigger(**trigger)
        .start()
    )


def throughput(parameters: Parameters) -> Measurement:
    """Process all that there is; when each batch ended."""
    out = Path(parameters["scratch"]).parent.name.replace(" ", "-")
    create(parameters["bootstrap"], out, parameters["partitions"])
    spark = open_session(parameters)
    query = start(result(spark, "in", parameters), out, parameters, availableNow=True)
    while not query.awaitTermination(POLL_SECONDS):
        last = query.lastProgress
        report(f"batch {last.batchId if last else 0}")
    batches = [p for p in query.recentProgress if p.numInputRows > 0]
    began = [_seconds(progress.timestamp) for progress in batches]
    ended = [at + p.batchDuration / 1e3 for at, p in zip(began, batches, strict=True)]
    spark.stop()
    check_totals(parameters["bootstrap"], out, parameters, committed=False)
    rows, read = [], 0
    for progress in batches:
        read += progress.numInputRows
        rows.append(read)
    return {"ended": ended, "rows": rows}


def _seconds(timestamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def latency(parameters: Parameters) -> Measurement:
    """Follow a producer that keeps to the clock. mode: "micro-batch" or "real-time"."""
    bootstrap = parameters["bootstrap"]
    name = Path(parameters["scratch"]).parent.name.replace(" ", "-")
    for topic in (f"{name}-in", f"{name}-out"):
        create(bootstrap, topic, parameters["partitions"])
    spark = open_session(parameters)
    frame = result(spark, f"{name}-in", {**parameters, "per_batch": None})
    if parameters["mode"] == "real-time":
        trigger = {"realTime": parameters["real_time"]}
    else:
        trigger = {"processingTime": "0 seconds"}
    with clocked_producer(bootstrap, f"{name}-in", parameters):
        query = start(frame, f"{name}-out", parameters, **trigger)
        found = waits(bootstrap, f"{name}-out", parameters, committed=False)
        if not query.isActive:
            raise RuntimeError(f"the query ended: {query.exception()}")
        query.stop()
    time.sleep(1)
    spark.stop()
    return {"waits": found}
