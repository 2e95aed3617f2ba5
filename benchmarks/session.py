"""The Spark session that every side of a comparison gets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.harness import Parameters


def shared_settings(parameters: Parameters) -> dict[str, str]:
    """Session settings for `parameters`: ``cores``, ``tasks``, ``driver_memory``, ``scratch``."""
    return {
        "spark.master": f"local[{parameters['cores']}]",
        "spark.driver.memory": str(parameters["driver_memory"]),
        "spark.local.dir": str(Path(parameters["scratch"]) / "local"),
        "spark.sql.shuffle.partitions": str(parameters["tasks"]),
        # One read task per file of a batch, also where there are fewer cores than files.
        "spark.sql.files.minPartitionNum": str(parameters["tasks"]),
        "spark.sql.adaptive.enabled": "false",
        # TCP costs each Python stage some 40 ms.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        "spark.sql.session.timeZone": "UTC",
        # A hash of every shuffled row, to find tasks that are not deterministic: 10 % of a shuffle.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.locality.wait": "500ms",
        "spark.shuffle.reduceLocality.enabled": "false",
        "spark.shuffle.sort.bypassMergeThreshold": "1000",
        # No row leaves the machine.
        "spark.shuffle.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def session(parameters: Parameters, extra: Mapping[str, str]) -> SparkSession:
    """A new session with the shared settings and `extra` ones; logs errors only."""
    builder = SparkSession.builder.appName("benchmark")
    for name, value in {**shared_settings(parameters), **extra}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
