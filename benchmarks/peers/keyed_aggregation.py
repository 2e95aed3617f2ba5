"""Count and sum per key, with the operators and the state stores that Spark brings along."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions

from benchmarks.harness import Parameters
from benchmarks.measurements import BatchMeasurement
from benchmarks.peers.streaming import HDFS, PROGRESS_KEPT, ROCKSDB, measure_batches, read_batches
from benchmarks.session import session

STORES = {"hdfs": HDFS, "rocksdb": ROCKSDB}


def run(parameters: Parameters) -> BatchMeasurement:
    """Measure the store that ``store`` names: ``hdfs`` or ``rocksdb``."""
    spark = session(parameters, {**PROGRESS_KEPT, **STORES[parameters["store"]]})
    measurement = measure_batches(counted(read_batches(spark, parameters)), parameters)
    spark.stop()
    return measurement


def counted(rows: DataFrame) -> DataFrame:
    """Count and sum of ``value`` per ``key``."""
    return rows.groupBy("key").agg(
        functions.count("*").alias("count"), functions.sum("value").alias("total")
    )
