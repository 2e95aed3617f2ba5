"""Applications with which nothing is the matter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.held_out.tables import texts, write_table
from tests.unit.profiling.labelled.work import wait_for_executors

SALES = 2_500_000
SHOPS = 400
ITEMS = 2_000
WORDS = 2_000_000
VALUES = 2_400_000


def prepare_nightly_reports(place: Path, *, mended: bool) -> None:
    """Sales, and the shops and items that they refer to."""
    del mended
    made = np.random.default_rng(61)
    shop, item = made.integers(0, SHOPS, SALES), made.integers(0, ITEMS, SALES)
    columns = {"shop": shop, "item": item, "amount": made.random(SALES)}
    write_table(place, "sales", 8, {**columns, "day": made.integers(0, 30, SALES)})
    numbers = np.arange(SHOPS)
    write_table(place, "shops", 1, {"shop": numbers, "town": texts(numbers % 60, "Town")})
    numbers = np.arange(ITEMS)
    write_table(place, "items", 1, {"item": numbers, "kind": texts(numbers % 25, "kind")})


def nightly_reports(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Joins with small tables, and three reports."""
    del mended
    sales = spark.read.parquet(f"file://{place}/sales")
    sales = sales.join(spark.read.parquet(f"file://{place}/shops"), "shop")
    sales = sales.join(spark.read.parquet(f"file://{place}/items"), "item")
    by_town = sales.groupBy("town", "day").agg(f.sum("amount"), f.approx_count_distinct("item"))
    by_town.write.parquet(f"file://{place}/by-town")
    by_kind = sales.groupBy("kind", "shop").agg(f.avg("amount"), f.stddev("amount"))
    by_kind.orderBy("kind").write.parquet(f"file://{place}/by-kind")
    order = Window.partitionBy("shop", "day").orderBy(f.desc("amount"))
    best = sales.withColumn("place", f.row_number().over(order)).filter("place <= 3")
    best.write.parquet(f"file://{place}/best")


def prepare_counted_words(place: Path, *, mended: bool) -> None:
    """Lines of words."""
    del mended
    made = np.random.default_rng(62)
    words = made.integers(0, 30_000, WORDS).tolist()
    (place / "text").mkdir()
    for number in range(8):
        part = words[number::8]
        lines = (
            " ".join(f"word{w}" for w in part[i : i + 12]) + "\n" for i in range(0, len(part), 12)
        )
        (place / "text" / f"{number}.txt").write_text("".join(lines))


def counted_words(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Words and pairs of words, counted and sorted."""
    del mended
    lines = spark.read.text(f"file://{place}/text").select(f.split("value", " ").alias("words"))
    words = lines.select(f.explode("words").alias("word"))
    words.groupBy("word").count().orderBy(f.desc("count")).write.csv(f"file://{place}/words")
    ends = f.expr(
        "transform(sequence(1, size(words) - 1), i -> concat(words[i - 1], ' ', words[i]))"
    )
    pairs = lines.select(f.explode(ends).alias("pair")).groupBy(f.md5("pair").alias("pair")).count()
    pairs.filter("count > 1").write.csv(f"file://{place}/pairs")


def prepare_sorted_table(place: Path, *, mended: bool) -> None:
    """Values in no order."""
    del mended
    made = np.random.default_rng(63)
    columns = {"at": made.integers(0, 10**9, VALUES), "value": made.random(VALUES)}
    write_table(place, "values", 8, {**columns, "key": made.integers(0, 500, VALUES)})


def sorted_table(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A table sorted by time, on two executors, and what is in it by key."""
    del mended
    wait_for_executors(spark, 2)
    values = spark.read.parquet(f"file://{place}/values")
    values.orderBy("at").write.parquet(f"file://{place}/sorted")
    found = spark.read.parquet(f"file://{place}/sorted")
    found.groupBy("key").agg(f.max("at"), f.stddev("value")).write.parquet(f"file://{place}/keys")
