"""Applications whose executors come and go. What happens to them happens from outside."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.held_out.tables import write_table
from tests.unit.profiling.labelled.work import executors, kill_later, wait_for_executors

ROWS = 1_600_000
BURSTS = 3
THINKING = 4
"""Seconds between two bursts, in which executors are released."""


def _prepare(place: Path) -> None:
    made = np.random.default_rng(41)
    columns = {"key": made.integers(0, 4_000, ROWS), "x": made.random(ROWS), "y": made.random(ROWS)}
    write_table(place, "points", 8, columns)


def _costly(spark: SparkSession, place: Path) -> DataFrame:
    rows = spark.read.parquet(f"file://{place}/points")
    series = f.transform(
        f.sequence(f.lit(1), f.lit(40)), lambda i: f.sin(f.col("x") * i) * f.col("y")
    )
    return rows.withColumn("power", f.aggregate(series, f.lit(0.0), lambda a, b: a + b * b))


def prepare_preempted_node(place: Path, *, mended: bool) -> None:
    """Points in files."""
    del mended
    _prepare(place)


def preempted_node(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Two aggregations; a node is taken away in the midst of each."""
    del mended
    for number in range(2):
        wait_for_executors(spark, 2)
        running = executors(spark)
        timer = kill_later(running[max(running, key=int)], 7)
        powers = _costly(spark, place).groupBy("key").agg(f.sum("power"), f.max("power"))
        powers.write.parquet(f"file://{place}/powers-{number}")
        timer.join()


def prepare_bursts_of_jobs(place: Path, *, mended: bool) -> None:
    """Points in files."""
    del mended
    _prepare(place)


def bursts_of_jobs(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Jobs with short pauses, after each of which executors have to be requested again."""
    del mended
    for number in range(BURSTS):
        powers = _costly(spark, place).filter(f"key % {BURSTS} = {number}")
        powers.groupBy("key").agg(f.avg("power")).write.parquet(f"file://{place}/part-{number}")
        time.sleep(THINKING if number + 1 < BURSTS else 0)
