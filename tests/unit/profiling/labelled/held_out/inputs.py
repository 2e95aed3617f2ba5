"""Applications that read and write files, too many or too large, or cut into the wrong number of parts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.held_out.tables import texts, write_table

DAYS = 42
HOURS = 24
READINGS = 30
SALES = 500_000
SHOPS = 14
LINES = 1_100_000
MEASURED = 900_000
SENSORS = 24_000


def prepare_hourly_readings(place: Path, *, mended: bool) -> None:
    """A JSON file of a few lines for each hour."""
    del mended
    for day in range(DAYS):
        for hour in range(HOURS):
            at = (
                place
                / "readings"
                / f"day=2024-{day // 28 + 1:02}-{day % 28 + 1:02}"
                / f"hour={hour}"
            )
            at.mkdir(parents=True)
            rows = [{"sensor": i, "value": i * hour % 17, "unit": "C"} for i in range(READINGS)]
            (at / "readings.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def hourly_readings(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Means of each day."""
    del mended
    readings = spark.read.json(f"file://{place}/readings")
    daily = readings.groupBy("day", "sensor").agg(f.avg("value"), f.max("value"))
    daily.write.csv(f"file://{place}/daily")


def prepare_sales_by_day_and_shop(place: Path, *, mended: bool) -> None:
    """Sales of two months in some shops, in no order."""
    del mended
    made = np.random.default_rng(11)
    columns = {
        "day": made.integers(0, 60, SALES),
        "shop": made.integers(0, SHOPS, SALES),
        "item": texts(made.integers(0, 9_000, SALES), "item"),
        "amount": made.random(SALES),
    }
    write_table(place, "sales", 4, columns)


def sales_by_day_and_shop(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Every task writes a file into every directory."""
    del mended
    sales = spark.read.parquet(f"file://{place}/sales").filter("amount > 0.01")
    sales.write.partitionBy("day", "shop").parquet(f"file://{place}/by-day")


def prepare_compressed_export(place: Path, *, mended: bool) -> None:
    """One large file that cannot be read in parts."""
    del mended
    made = np.random.default_rng(12)
    columns = zip(
        made.integers(0, 90_000, LINES).tolist(),
        made.integers(0, 10**9, LINES).tolist(),
        strict=True,
    )
    lines = (f"2024-05-{a % 28 + 1:02} user-{a} /shop/{b % 977}?ref={b}\n" for a, b in columns)
    with gzip.open(place / "export.log.gz", "wt", compresslevel=1) as out:
        out.writelines(lines)


def compressed_export(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Visits by day and shop, from a log that is taken apart by regular expressions."""
    del mended
    lines = spark.read.text(f"file://{place}/export.log.gz")
    fields = lines.select(
        f.regexp_extract("value", r"^(\S+) ", 1).cast("date").alias("day"),
        f.regexp_extract("value", r" (user-\d+) ", 1).alias("user"),
        f.regexp_extract("value", r"/shop/(\d+)\?", 1).cast("int").alias("shop"),
        f.sha2(f.regexp_extract("value", r"ref=(\d+)$", 1), 256).alias("reference"),
    )
    counted = fields.groupBy("day", "shop").agg(
        f.approx_count_distinct("user"), f.approx_count_distinct("reference")
    )
    counted.write.parquet(f"file://{place}/visits")


def prepare_one_file_for_all(place: Path, *, mended: bool) -> None:
    """Measured values in a dozen files."""
    del mended
    made = np.random.default_rng(13)
    columns = {f"m{number}": made.random(MEASURED) for number in range(4)}
    write_table(place, "measured", 12, {"id": np.arange(MEASURED), **columns})


def one_file_for_all(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Cleaned values, and at last a single file because whoever gets it asked for one."""
    del mended
    rows = spark.read.parquet(f"file://{place}/measured")
    series = f.transform(
        f.sequence(f.lit(1), f.lit(24)), lambda i: f.sin(f.col("m0") * i) * f.col("m1")
    )
    rows = rows.withColumn("power", f.aggregate(series, f.lit(0.0), lambda a, x: a + x * x))
    rows = rows.filter("power > 0.5").withColumn(
        "digest", f.sha2(f.col("power").cast("string"), 256)
    )
    rows.coalesce(1).write.option("header", True).csv(f"file://{place}/for-finance")


def prepare_totals_of_sensors(place: Path, *, mended: bool) -> None:
    """A small table."""
    del mended
    made = np.random.default_rng(14)
    columns = {"sensor": made.integers(0, 800, SENSORS), "site": made.integers(0, 60, SENSORS)}
    write_table(place, "sensors", 2, {**columns, "value": made.random(SENSORS)})


def totals_of_sensors(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Three reports on a small table, with a number of partitions that was set for large ones."""
    del mended
    sensors = spark.read.parquet(f"file://{place}/sensors")
    for key in ("sensor", "site"):
        totals = sensors.groupBy(key).agg(f.sum("value").alias("total"))
        totals.orderBy("total").write.parquet(f"file://{place}/by-{key}")
