"""Applications in which one key has most of the rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.work import describe, drain, slept

ROWS = 8_000
CUSTOMERS = 960
MS_PER_ROW = 2


def skewed_join(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A join of orders with customers; one customer has seven orders of ten."""
    del place
    ids = spark.range(0, CUSTOMERS, 1, 4)
    customers = ids.selectExpr("id AS customer", "sha2(string(id), 256) AS address")
    describe(spark, "orders with addresses")
    drain(
        orders(spark, even=mended).join(customers, "customer").withColumn("sent", slept(MS_PER_ROW))
    )


def skewed_aggregation(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """The orders of each customer as one list; one customer has seven orders of ten."""
    del place
    lists = (
        orders(spark, even=mended).groupBy("customer").agg(f.collect_list("note").alias("notes"))
    )
    describe(spark, "orders by customer")
    drain(lists.withColumn("sent", slept(f"{MS_PER_ROW} * size(notes)")))


def orders(spark: SparkSession, *, even: bool) -> DataFrame:
    """Customer and note."""
    customer = f"id % {CUSTOMERS}"
    if not even:
        customer = f"if(id % 10 < 7, 0L, {customer})"
    notes = "repeat(sha2(string(id), 256), 8) AS note"
    return spark.range(0, ROWS, 1, 4).selectExpr(f"{customer} AS customer", notes)
