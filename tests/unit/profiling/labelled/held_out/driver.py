"""Applications whose driver is the slow part, or that do things more than once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.held_out.tables import texts, write_table

EXPORTED = 450_000
CHECKED = 600_000
CASES = 2_500
ROUNDS = 9_000
FEATURES = 260
LOOKUPS = 36
LINES = 500_000


def prepare_frame_for_a_plot(place: Path, *, mended: bool) -> None:
    """Measured values with names."""
    del mended
    made = np.random.default_rng(31)
    number = made.integers(0, 10**6, EXPORTED)
    columns = {
        "id": np.arange(EXPORTED),
        "name": texts(number, "measured at"),
        "x": made.random(EXPORTED),
    }
    write_table(place, "measured", 6, columns)


def frame_for_a_plot(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """All rows as a frame of pandas, of which a histogram is made."""
    del mended
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "false")
    rows = spark.read.parquet(f"file://{place}/measured").withColumn("y", f.log1p("x"))
    rows = rows.withColumn("digest", f.md5("name"))
    frame: Any = rows.toPandas()
    np.histogram(frame["y"], bins=30)


def prepare_rows_one_by_one(place: Path, *, mended: bool) -> None:
    """Accounts."""
    del mended
    made = np.random.default_rng(32)
    account = made.integers(0, 10**6, CHECKED)
    columns = {"account": texts(account, "account"), "balance": made.random(CHECKED)}
    write_table(place, "accounts", 10, columns)


def rows_one_by_one(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A sum by account, on the driver, of rows that come partition by partition."""
    del mended
    balances: dict[str, float] = {}
    rows = spark.read.parquet(f"file://{place}/accounts").filter("balance > 0.001")
    for row in rows.toLocalIterator():
        balances[row["account"]] = balances.get(row["account"], 0.0) + row["balance"]


def prepare_model_of_cases(place: Path, *, mended: bool) -> None:
    """Cases of which few are left once they are summed up."""
    del mended
    made = np.random.default_rng(33)
    case = made.integers(0, CASES, CASES * 40)
    write_table(place, "cases", 3, {"case": case, "x": made.random(len(case)), "y": case % 2})


def model_of_cases(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A logistic regression, trained by the program itself on a few rows."""
    del mended
    cases = spark.read.parquet(f"file://{place}/cases")
    few = cases.groupBy("case").agg(f.avg("x").alias("x"), f.max("y").alias("y")).collect()
    points = [(row["x"], row["y"]) for row in few]
    slope = offset = 0.0
    for _ in range(ROUNDS * 6):
        for x, y in points[::4]:
            error = y - 1 / (1 + math.exp(-slope * x - offset))
            slope += 0.01 * error * x
            offset += 0.01 * error
    weights = spark.createDataFrame([(slope, offset)], "slope double, offset double")
    cases.crossJoin(weights).selectExpr("`case`", "x * slope + offset AS score").write.parquet(
        f"file://{place}/scores"
    )


def prepare_features_in_a_loop(place: Path, *, mended: bool) -> None:
    """A small table."""
    del mended
    made = np.random.default_rng(34)
    write_table(place, "base", 2, {f"c{number}": made.random(20_000) for number in range(20)})


def features_in_a_loop(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Hundreds of columns, added one after the other."""
    del mended
    rows = spark.read.parquet(f"file://{place}/base")
    for number in range(FEATURES):
        one, other = f"c{number % 20}", f"c{(number * 7 + 3) % 20}"
        rows = rows.withColumn(
            f"f{number}", f.when(f.col(one) > f.col(other), f.col(one)).otherwise(0)
        )
    rows.write.parquet(f"file://{place}/features")


def prepare_star_of_many_tables(place: Path, *, mended: bool) -> None:
    """Sales, and many small tables about their parts."""
    del mended
    made = np.random.default_rng(35)
    keys = {f"k{number}": made.integers(0, 50, 40_000) for number in range(LOOKUPS)}
    write_table(place, "sales", 2, {**keys, "amount": made.random(40_000)})
    for number in range(LOOKUPS):
        columns = {f"k{number}": np.arange(50), f"name{number}": texts(np.arange(50), "name")}
        write_table(place, f"lookup{number}", 1, columns)


def star_of_many_tables(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Sales with the names of all that they refer to, summed up by some of them."""
    del mended
    rows = spark.read.parquet(f"file://{place}/sales")
    for number in range(LOOKUPS):
        rows = rows.join(spark.read.parquet(f"file://{place}/lookup{number}"), f"k{number}", "left")
    for number in range(2):
        sums = rows.groupBy(f"name{number}", f"name{number + 5}").agg(f.sum("amount"))
        sums.write.parquet(f"file://{place}/sums{number}")


def prepare_reports_on_parsed_lines(place: Path, *, mended: bool) -> None:
    """Lines that are laborious to take apart."""
    del mended
    (place / "lines").mkdir()
    for number in range(6):
        rows = (
            f"{i};user {i % 5_003};{i % 97}.{i % 89};region-{i % 23}\n"
            for i in range(number, LINES, 6)
        )
        (place / "lines" / f"{number}.txt").write_text("".join(rows))


def reports_on_parsed_lines(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Five reports on the same rows, which are taken apart anew for each."""
    del mended
    lines = spark.read.text(f"file://{place}/lines")
    digest = f.col("value")
    for _ in range(12):
        digest = f.sha2(digest, 512)
    rows = lines.select(
        f.regexp_extract("value", r"^(\d+);", 1).cast("long").alias("id"),
        f.regexp_extract("value", r";user (\d+);", 1).cast("int").alias("user"),
        f.regexp_extract("value", r";(\d+\.\d+);", 1).cast("double").alias("amount"),
        f.regexp_extract("value", r";region-(\d+)$", 1).alias("region"),
        digest.alias("digest"),
    )
    sums = rows.groupBy("region", (f.col("user") % 20).alias("part")).agg(
        f.sum("amount").alias("amount"), f.max("digest").alias("digest")
    )
    for name in ("amount", "region", "part", "digest"):
        sums.orderBy(name).limit(50).write.parquet(f"file://{place}/top-by-{name}")
    sums.groupBy("region").agg(f.sum("amount")).write.parquet(f"file://{place}/by-region")
