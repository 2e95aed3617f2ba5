"""Applications with functions in Python."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from operator import add
from pathlib import Path

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from tests.unit.profiling.labelled.held_out.tables import write_table

TRIPS = 1_200_000
LINES = 700_000
ORDERS = 16_000
REQUEST = 100
"""Orders in a request."""
SHOPS = 48
DAYS = 700


def prepare_trip_lengths(place: Path, *, mended: bool) -> None:
    """Where trips begin and end."""
    del mended
    made = np.random.default_rng(21)
    columns = {name: made.random(TRIPS) for name in ("lat", "lon", "to_lat", "to_lon")}
    write_table(place, "trips", 6, columns)


def trip_lengths(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Lengths of trips by a pandas function that computes row by row."""
    del mended

    def kilometres(
        lat: pd.Series, lon: pd.Series, to_lat: pd.Series, to_lon: pd.Series
    ) -> pd.Series:
        found = []
        for a, b, c, d in zip(lat, lon, to_lat, to_lon, strict=True):
            half = (
                math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
            )
            bearing = math.atan2(
                math.sin(d - b) * math.cos(c), math.cos(a) - math.sin(a) * math.cos(c)
            )
            found.append(12_742 * math.asin(math.sqrt(half)) + bearing * 1e-9)
        return pd.Series(found)

    length = pandas_udf(kilometres, "double")  # type: ignore[call-overload]  # its stubs are too narrow
    trips = spark.read.parquet(f"file://{place}/trips")
    trips = trips.withColumn("km", length("lat", "lon", "to_lat", "to_lon"))
    trips.filter("km > 10").write.parquet(f"file://{place}/long-trips")


def prepare_errors_by_host(place: Path, *, mended: bool) -> None:
    """Lines of a log as JSON."""
    del mended
    (place / "log").mkdir()
    for number in range(6):
        rows = (
            {"host": f"h{i % 300}", "level": "ERROR" if i % 9 == 0 else "INFO", "took": i % 977}
            for i in range(number, LINES, 6)
        )
        (place / "log" / f"{number}.json").write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )


def errors_by_host(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Errors of each host, with lambdas on an RDD."""
    del mended
    lines = spark.sparkContext.textFile(f"file://{place}/log/*.json", 6).map(json.loads)
    slow = lines.map(lambda row: {**row, "slow": math.log1p(row["took"]) > 5})
    errors = slow.filter(lambda row: row["level"] == "ERROR" or row["slow"])
    counts = errors.map(lambda row: (row["host"], 1)).reduceByKey(add, 6)
    counts.sortBy(lambda pair: -pair[1], numPartitions=2).saveAsTextFile(f"file://{place}/errors")


def prepare_scored_orders(place: Path, *, mended: bool) -> None:
    """Some orders."""
    del mended
    made = np.random.default_rng(22)
    write_table(place, "orders", 8, {"id": np.arange(ORDERS), "amount": made.random(ORDERS)})


def scored_orders(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Scores that a service computes, asked for a hundred orders at a time."""
    del mended

    def ask(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            for begin in range(0, len(frame), REQUEST):
                part = frame.iloc[begin : begin + REQUEST]
                time.sleep(0.35)  # The service takes its time.
                yield part.assign(score=part["amount"] * 0.7)

    orders = spark.read.parquet(f"file://{place}/orders").repartition(8)
    scored = orders.mapInPandas(ask, "id long, amount double, score double")
    scored.write.parquet(f"file://{place}/scored")


def prepare_forecasts(place: Path, *, mended: bool) -> None:
    """Turnover by shop and day; all shops have the same days."""
    del mended
    made = np.random.default_rng(23)
    columns = {
        "shop": np.repeat(np.arange(SHOPS), DAYS),
        "day": np.tile(np.arange(DAYS), SHOPS),
        "turnover": made.random(SHOPS * DAYS),
    }
    write_table(place, "turnover", 2, columns)


def forecasts(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """The best factor of exponential smoothing for each shop, by trying many."""
    del mended

    def smooth(shop: pd.DataFrame) -> pd.DataFrame:
        values = shop.sort_values("day")["turnover"].tolist()
        best, least = 0.0, math.inf
        for step in range(1, 600):
            factor, level, error = step / 600, values[0], 0.0
            for value in values:
                error += (value - level) ** 2
                level += factor * (value - level)
            if error < least:
                best, least = factor, error
        return pd.DataFrame({"shop": [shop["shop"].iloc[0]], "factor": [best], "error": [least]})

    turnover = spark.read.parquet(f"file://{place}/turnover")
    found = turnover.groupBy("shop").applyInPandas(smooth, "shop long, factor double, error double")
    found.write.parquet(f"file://{place}/factors")
