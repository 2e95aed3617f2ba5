"""Applications whose driver is busy while executors wait, and one with a slow function."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.work import describe, drain, slept

ALIASES = 13
QUERIES = 4
LARGE = 2_500_000
COLLECTED = 900_000
ROUNDS = 6
DRIVER_SECONDS = 2.5
PRICED = 18_000


def many_names(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Joins of few rows whose columns have many names each, or a few.

    A condition on three columns holds for every combination of their names, which the optimiser lists.
    """
    del place
    others = spark.range(0, 97, 1, 2).selectExpr("id AS a1", "id * 2 AS price")
    for least in range(QUERIES):
        names = range(3 if mended else ALIASES)
        rows = spark.range(0, 2_000, 1, 4).selectExpr(
            "id % 97 AS a", "id % 89 AS b", "id % 83 AS c"
        )
        rows = rows.filter(f"a + b + c > {least}")
        rows = rows.selectExpr(*(f"{column} AS {column}{i}" for column in "abc" for i in names))
        describe(spark, f"prices, sums above {least}")
        drain(rows.join(others, "a1"))


def large_broadcast(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A join with the hint to broadcast the larger side, or the smaller one."""
    del place
    large = spark.range(0, LARGE, 1, 4).selectExpr(
        "string(id) AS key", "sha2(string(id), 256) AS text"
    )
    small = spark.range(0, 400, 1, 4).selectExpr("string(id * 5) AS key", "id AS number")
    joined = (
        large.join(f.broadcast(small), "key") if mended else small.join(f.broadcast(large), "key")
    )
    describe(spark, "numbered texts")
    drain(joined)


def collected_rows(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A sum of many rows that the driver computes after it has collected them, or that executors compute."""
    del place
    rows = spark.range(0, COLLECTED, 1, 8).selectExpr(
        "id", "id % 100 AS part", "sha2(string(id), 256) AS text", "double(id) / 7 AS amount"
    )
    describe(spark, "amounts by part")
    if mended:
        rows.groupBy("part").sum("amount").collect()
        return
    sums: dict[int, float] = {}
    for row in rows.collect():
        sums[row.part] = sums.get(row.part, 0.0) + row.amount


def busy_driver(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Jobs with work of the program itself between them."""
    del place
    for number in range(ROUNDS):
        describe(spark, f"round {number}")
        drain(spark.range(0, 1_000, 1, 4).withColumn("sent", slept(2)))
        if not mended:
            time.sleep(DRIVER_SECONDS)


def slow_function(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A Python function that takes 2 ms for each row, or an expression of Spark."""
    del place
    rows = spark.range(0, PRICED, 1, 12)

    @f.udf(returnType="long")
    def price(number: int) -> int:
        time.sleep(0.002)
        return number * 3

    describe(spark, "prices")
    drain(rows.select("id", (f.col("id") * 3 if mended else price("id")).alias("price")))
