"""Applications whose executors are slow, late, lost or damaged. What happens to them happens from outside."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pyspark.sql import SparkSession

from tests.unit.profiling.labelled.work import (
    describe,
    drain,
    executors,
    hanging,
    kill_later,
    slept,
    slowed,
    wait_for_executors,
)

SHARE = 0.15
"""Of the time in which a slowed executor runs."""
MS_PER_ROW = 2
LOST_AFTER = 4.5


def work(spark: SparkSession, tasks: int, rows: int) -> None:
    """Equal tasks that take 2 ms for each of their rows."""
    drain(spark.range(0, tasks * rows, 1, tasks).withColumn("sent", slept(MS_PER_ROW)))


def slow_host(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Three jobs of equal tasks on two executors, one of which has a seventh of the other's speed."""
    del place
    wait_for_executors(spark, 2)
    slow = executors(spark)["1"]
    with contextlib.nullcontext() if mended else slowed(slow, SHARE):
        for number in range(3):
            describe(spark, f"part {number}")
            work(spark, 8, 600)


def killed_executor(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Two jobs of one wave of tasks, in each of which an executor is killed before they end."""
    del place
    for number in range(2):
        wait_for_executors(spark, 2)
        doomed = executors(spark)[max(executors(spark), key=int)]
        describe(spark, f"part {number}")
        timer = None if mended else kill_later(doomed, LOST_AFTER)
        work(spark, 4, 2_500)
        if timer:
            timer.join()


def executors_requested_late(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A job that waits for executors for as long as the setting says before they are even requested."""
    del place, mended
    describe(spark, "everything")
    work(spark, 8, 1_000)


def deleted_shuffle_files(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Jobs that read one shuffle, whose files on one executor are deleted after the first of them."""
    wait_for_executors(spark, 2)
    rows = spark.range(0, 8 * 1_500, 1, 8).withColumn("sent", slept(MS_PER_ROW))
    # All jobs count one RDD, so that the later ones find the first one's shuffle.
    counted = rows.repartition(4, "id")._jdf.queryExecution().toRdd()
    for number in range(3):
        describe(spark, f"count {number}")
        counted.count()
        if not mended and number < 2:
            lose_shuffle_files(place)


def lose_shuffle_files(place: Path) -> None:
    """Delete the shuffle files of one of the executors. Raises RuntimeError if there are none."""
    found: dict[Path, list[Path]] = {}
    for file in (place / "local").rglob("shuffle_*"):
        found.setdefault(file.parents[1], []).append(file)
    if not found:
        msg = "there are no shuffle files"
        raise RuntimeError(msg)
    for file in found[min(found)]:
        file.unlink()


def hanging_hosts(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Three jobs; in each one the other of two hosts hangs, until copies of its tasks have overtaken them."""
    del place
    wait_for_executors(spark, 2)
    processes = executors(spark)
    for number in range(3):
        describe(spark, f"part {number}")
        hung = processes[str(number % 2)]
        with contextlib.nullcontext() if mended else hanging(hung, 0.7):
            work(spark, 12, 500)
