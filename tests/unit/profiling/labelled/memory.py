"""Applications that have too little memory."""

from __future__ import annotations

from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.unit.profiling.labelled.work import describe, drain

SORTED = 5_000_000
LISTED = 4_000_000
KEPT = 300_000
PASSES = 6


def random_numbers(count: int) -> list[str]:
    """So many columns of numbers that do not compress. SQL expressions."""
    return [f"xxhash64(id, {number}) AS n{number}" for number in range(count)]


def spilling_sort(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A sort of rows that fit in memory, or do not."""
    del place, mended
    rows = spark.range(0, SORTED, 1, 4).selectExpr("id", *random_numbers(12))
    describe(spark, "sorted numbers")
    drain(rows.sortWithinPartitions("n0"))


def small_heap(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Lists of many small objects, which fill most of a small heap."""
    del place, mended
    for length in (3, 4):
        rows = spark.range(0, LISTED, 1, 4).selectExpr(
            "id % 4 AS part", f"right(string(id), {length}) AS text"
        )
        describe(spark, f"texts of {length} letters")
        drain(
            rows.groupBy("part")
            .agg(f.collect_list("text").alias("texts"))
            .selectExpr("size(texts)")
        )


def cache_too_large(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Passes over a dataset that is kept in memory as far as it fits there."""
    del place, mended
    # A row of forty takes 2 ms: 2 s in each partition.
    pause = "CASE WHEN id % 40 = 0 THEN java_method('java.lang.Thread', 'sleep', 2L) END AS made"
    rows = spark.range(0, KEPT, 1, 8).selectExpr("id", pause, *random_numbers(20))
    rows = rows.persist(StorageLevel.MEMORY_ONLY)
    for number in range(PASSES):
        describe(spark, f"pass {number}")
        drain(rows.filter(f"id % {PASSES} = {number}"))
