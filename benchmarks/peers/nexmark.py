"""Queries of NEXMark as Structured Streaming runs them."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import Parameters
from benchmarks.inputs import batch_glob
from benchmarks.measurements import BatchMeasurement
from benchmarks.nexmark.benchmark import PEERS, schema_of
from benchmarks.nexmark.query import query
from benchmarks.peers.streaming import HDFS, PROGRESS_KEPT, ROCKSDB, measure_batches
from benchmarks.processor import processor_time
from benchmarks.session import session

STORES = {"hdfs": HDFS, "rocksdb": ROCKSDB, "spark": {}}


def run(parameters: Parameters) -> BatchMeasurement:
    """Measure the query that ``query`` names over the store that ``store`` names."""
    spark = session(parameters, {**PROGRESS_KEPT, **STORES[parameters["store"]]})
    asked = query(parameters["query"])
    text, mode = PEERS.get(asked.name, ("", "append"))
    for kind in asked.reads:
        rows = read(spark, parameters, kind)
        if asked.stateful:
            rows = rows.withWatermark("dateTime", "0 seconds")
        rows.createOrReplaceTempView(kind)
    with processor_time() as watched:
        rows = spark.sql(text or asked.sql)
        measurement = measure_batches(rows, parameters, mode=mode, watched=watched)
    spark.stop()
    return measurement


def read(spark: SparkSession, parameters: Parameters, kind: str) -> DataFrame:
    """The batches of one kind of event."""
    return (
        spark.readStream.schema(schema_of(kind))
        .option("maxFilesPerTrigger", parameters["files"])
        .option("pathGlobFilter", batch_glob(parameters["batches"]))
        .parquet(str(Path(parameters["input"]) / kind))
    )
