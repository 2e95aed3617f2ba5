"""Streams that are slow, or that cannot keep up, and one that is well."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

SCHEMA = "user long, at timestamp, amount double"
PAYMENTS = 36
"""Files of the stream of payments."""
STEPS = 9
"""Files of the stream of sessions."""
INVOICES = 10
"""Files of the stream into a database."""
VISITS = 26
"""Files of the stream of visitors."""
ARRIVALS = 40
EVERY = 0.8
"""Seconds after which another file arrives."""
MINUTE = 60_000_000


def _file(place: Path, number: int, user: np.ndarray) -> None:
    """One file, whose rows are a minute later than those of the file before."""
    made = np.random.default_rng(number)
    at = number * MINUTE + made.integers(0, MINUTE, len(user))
    columns = {"user": user, "at": pa.array(at, pa.timestamp("us", "UTC"))}
    table = pa.table({**columns, "amount": made.random(len(user))})
    (place / "in").mkdir(exist_ok=True)
    hidden = place / f".{number}"
    pq.write_table(table, hidden)
    hidden.rename(place / "in" / f"{number:04}.parquet")


def _read(spark: SparkSession, place: Path) -> DataFrame:
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return files.parquet(f"file://{place}/in")


def prepare_payments_to_files(place: Path, *, mended: bool) -> None:
    """Many files of a few payments."""
    del mended
    for number in range(PAYMENTS):
        _file(place, number, np.arange(40) + number)


def payments_to_files(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Sums by user in a table that each batch appends to."""
    del mended

    def append(batch: DataFrame, number: int) -> None:
        sums = batch.groupBy("user").agg(f.sum("amount").alias("amount"))
        sums.withColumn("batch", f.lit(number)).write.mode("append").parquet(f"file://{place}/sums")

    writer = _read(spark, place).writeStream.foreachBatch(append)
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def prepare_sessions_of_users(place: Path, *, mended: bool) -> None:
    """Steps of users, two of three of which are one user's."""
    del mended
    made = np.random.default_rng(51)
    for number in range(STEPS):
        hot = made.random(60_000) < 0.66
        _file(place, number, np.where(hot, 5, made.integers(0, 400, 60_000)))


def sessions_of_users(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Totals of users that a Python function keeps, and a smoothed mean."""
    del mended

    def follow(
        key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        count, level = state.get if state.exists else (0, 0.0)
        for frame in frames:
            for amount in frame["amount"].tolist():
                for _ in range(600):
                    level += 0.01 * (amount - level)
                count += 1
        state.update((count, level))
        yield pd.DataFrame({"user": [key[0]], "count": [count], "level": [level]})

    rows = _read(spark, place).groupBy("user")
    totals = rows.applyInPandasWithState(
        follow,
        "user long, count long, level double",
        "count long, level double",
        "update",
        GroupStateTimeout.NoTimeout,
    )
    writer = totals.writeStream.format("noop").outputMode("update").queryName("sessions")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def prepare_invoices_to_a_database(place: Path, *, mended: bool) -> None:
    """Some invoices at a time."""
    del mended
    for number in range(INVOICES):
        _file(place, number, np.arange(number * 500, number * 500 + 500))


def invoices_to_a_database(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Rows that are inserted one by one, each in a transaction of its own, over a slow line."""
    del mended

    def insert(batch: DataFrame, number: int) -> None:
        del number
        rows = batch.withColumn("tax", f.col("amount") * 0.19).collect()
        with contextlib.closing(sqlite3.connect(place / "invoices.db")) as database:
            database.execute("CREATE TABLE IF NOT EXISTS invoices (user INTEGER, tax REAL)")
            for row in rows:
                database.execute("INSERT INTO invoices VALUES (?, ?)", (row["user"], row["tax"]))
                database.commit()
                time.sleep(0.004)

    writer = _read(spark, place).writeStream.foreachBatch(insert).queryName("invoices")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def prepare_visitors_ever_seen(place: Path, *, mended: bool) -> None:
    """New visitors in each file."""
    del mended
    for number in range(VISITS):
        _file(place, number, np.arange(number * 90_000, (number + 1) * 90_000))


def visitors_ever_seen(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Visits by visitor and minute, none of which is ever complete."""
    del mended
    visits = _read(spark, place).groupBy("user", f.window("at", "1 minute"))
    counts = visits.agg(f.count("*").alias("visits"), f.sum("amount").alias("amount"))
    writer = counts.writeStream.format("noop").outputMode("update").queryName("visitors")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


@contextlib.contextmanager
def _arriving(place: Path, rows: int) -> Iterator[None]:
    """Another file from time to time."""
    ended = threading.Event()

    def arrive() -> None:
        for number in range(1, ARRIVALS):
            if ended.wait(EVERY):
                return
            _file(place, number, np.arange(rows))

    thread = threading.Thread(target=arrive)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def prepare_orders_that_pile_up(place: Path, *, mended: bool) -> None:
    """The first file."""
    del mended
    _file(place, 0, np.arange(6_000))


def orders_that_pile_up(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Files that arrive faster than they are processed, all cores being busy."""
    del mended
    series = f.transform(f.sequence(f.lit(1), f.lit(6_000)), lambda i: f.sin(f.col("amount") * i))
    power = f.aggregate(series, f.lit(0.0), lambda a, b: a + b * b)
    rows = _read(spark, place).repartition(4).withColumn("power", power)
    writer = rows.writeStream.format("parquet").queryName("orders")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer = writer.option("path", f"file://{place}/out")
    with _arriving(place, 6_000):
        query = writer.start()
        query.awaitTermination(24)
        query.stop()


def prepare_orders_in_time(place: Path, *, mended: bool) -> None:
    """The first file."""
    del mended
    _file(place, 0, np.arange(2_000))


def orders_in_time(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Files that are processed in a part of the time until the next trigger."""
    del mended
    files = spark.readStream.schema(SCHEMA).parquet(f"file://{place}/in")
    counts = files.withWatermark("at", "2 minutes").groupBy(f.window("at", "1 minute"))
    writer = counts.agg(f.count("*"), f.sum("amount")).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint").queryName("orders")
    writer = writer.option("path", f"file://{place}/out").trigger(processingTime="5 seconds")
    with _arriving(place, 2_000):
        query = writer.start()
        query.awaitTermination(27)
        query.stop()
