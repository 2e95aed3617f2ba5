"""Applications whose work is cut into the wrong number of pieces."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.unit.profiling.labelled.work import describe, drain, slept

ROWS = 6_000
MS_PER_ROW = 2
WAVES = 3
FILES = 3_000
ROWS_PER_FILE = 40


def one_partition(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Everything in one task, with four cores."""
    del place
    rows = spark.range(0, ROWS, 1, 4).selectExpr("id", "sha2(string(id), 512) AS text")
    describe(spark, "everything at once")
    drain(rows.repartition(8 if mended else 1).withColumn("sent", slept(MS_PER_ROW)))


def thousands_of_partitions(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Two sums over few rows, in as many tasks as the setting says."""
    del place, mended
    for days in (7, 30):
        rows = spark.range(0, 20_000, 1, 4).selectExpr(f"id % {days * 100} AS day", "id AS amount")
        describe(spark, f"amounts of {days} days")
        drain(rows.groupBy("day").sum("amount"))


def last_wave(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Five equal tasks on four cores: three cores wait for the fifth."""
    del place
    tasks = 20 if mended else 5
    for number in range(WAVES):
        describe(spark, f"part {number}")
        rows = spark.range(0, ROWS, 1, tasks).selectExpr("id", "sha2(string(id), 512) AS text")
        drain(rows.withColumn("sent", slept(MS_PER_ROW)))


def prepare_small_files(place: Path, *, mended: bool) -> None:
    """The same rows in thousands of Parquet files, or in eight."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (place / "measured").mkdir()
    files = 8 if mended else FILES
    rows = FILES * ROWS_PER_FILE // files
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        columns = {"id": list(ids), **{f"m{i}": [each * i % 97 for each in ids] for i in range(12)}}
        pq.write_table(pa.table(columns), place / "measured" / f"{number:05}.parquet")


def small_files(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A sum over all rows of a directory, twice."""
    del mended
    for column in ("m3", "m5"):
        describe(spark, f"sum of {column}")
        rows = spark.read.parquet(f"file://{place}/measured")
        drain(rows.groupBy(column).sum(*(f"m{i}" for i in range(12))))
