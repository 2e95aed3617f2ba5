"""Applications with which nothing is the matter."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.skewed import CUSTOMERS, orders
from tests.unit.profiling.labelled.streams import rate, run_for
from tests.unit.profiling.labelled.work import burnt, describe, drain, slept

FILES = 8
LINES = 60_000
STREAM_SECONDS = 14


def prepare_batch_etl(place: Path, *, mended: bool) -> None:
    """Comma-separated files of equal size."""
    del mended
    (place / "raw").mkdir()
    for file in range(FILES):
        lines = (
            f"{i},customer {i % 977},{i % 89}.50,2024-01-{i % 28 + 1:02}\n" for i in range(LINES)
        )
        (place / "raw" / f"{file}.csv").write_text("".join(lines))


def batch_etl(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Comma-separated files are read, cleaned and written as Parquet."""
    del mended
    raw = spark.read.schema("id long, customer string, amount double, day date")
    rows = raw.csv(f"file://{place}/raw").withColumn("score", burnt(300))
    describe(spark, "clean orders")
    rows.filter("amount > 1").write.parquet(f"file://{place}/clean")


def even_join(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A join of orders with customers who have equally many of them."""
    del place, mended
    ids = spark.range(0, CUSTOMERS, 1, 4)
    customers = ids.selectExpr("id AS customer", "sha2(string(id), 256) AS address")
    joined = orders(spark, even=True).join(customers, "customer")
    describe(spark, "orders with addresses")
    drain(joined.withColumn("sent", slept(5)))


def aggregation(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Sums by key, twice."""
    del place, mended
    for keys in (1_000, 5_000):
        describe(spark, f"sums of {keys} keys")
        rows = spark.range(0, 160_000, 1, 8).withColumn("score", burnt(400))
        drain(rows.groupBy((f.col("id") % keys).alias("key")).agg(f.sum("score"), f.count("*")))


def cached_iteration(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A dataset that is kept in memory, and five passes over it."""
    del place, mended
    rows = spark.range(0, 8_000, 1, 8).selectExpr("id", "sha2(string(id), 512) AS text")
    rows = rows.withColumn("made", slept(2)).persist()
    for number in range(5):
        describe(spark, f"pass {number}")
        drain(rows.filter("id % 2 = 0").withColumn("sent", slept(2)))


def query_of_several_stages(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Two joins, an aggregation and a sort."""
    del place, mended
    rows = spark.range(0, 90_000, 1, 6).withColumn("score", burnt(400))
    rows = rows.selectExpr("id", "id % 3000 AS customer", "id % 500 AS item", "score")
    rows.createOrReplaceTempView("sales")
    customers = spark.range(0, 3_000, 1, 2).selectExpr("id AS customer", "id % 50 AS region")
    customers.createOrReplaceTempView("customers")
    items = spark.range(0, 500, 1, 2).selectExpr("id AS item", "id % 9 + 1 AS price")
    items.createOrReplaceTempView("items")
    describe(spark, "turnover by region")
    query = spark.sql(
        "SELECT region, item, sum(price * score) AS turnover"
        " FROM sales JOIN customers USING (customer) JOIN items USING (item)"
        " GROUP BY region, item ORDER BY turnover DESC"
    )
    drain(query)


def stream_that_keeps_up(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A stream that has done each batch long before the next one is due."""
    del mended
    run_for(STREAM_SECONDS, rate(spark, 400).withColumn("sent", slept(2)), place, every="2 seconds")


def stateful_stream(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Counts in windows, with a watermark that lets go of old ones."""
    del mended
    rows = rate(spark, 400).withWatermark("timestamp", "2 seconds").withColumn("sent", slept(2))
    counts = rows.groupBy(f.window("timestamp", "2 seconds"), (f.col("value") % 50).alias("key"))
    run_for(STREAM_SECONDS, counts.agg(f.count("*"), f.count("sent")), place, every="2 seconds")


def short(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """One small count: most of its time is the start of Spark."""
    del place, mended
    spark.range(0, 1_000, 1, 4).withColumn("sent", slept(2)).agg(f.count("sent")).collect()
