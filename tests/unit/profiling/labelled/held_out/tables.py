"""Reports and joins over tables in files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

CLICKS = 2_400_000
SESSIONS = 15_000
LONG_SESSION = 7_000
"""Events of the one session that is far longer than the others."""
VISITS = 900_000
LONGEST_GAP = 90
"""Pages between two that are counted as a pair."""
EVENTS = 3_000_000
ORDERS = 2_400_000
CUSTOMERS = 1_800_000
SALES = 400_000
PRICES = 5_000_000


def write_table(place: Path, name: str, files: int, columns: Mapping[str, object]) -> None:
    """A directory of Parquet files with equally many rows each."""
    (place / name).mkdir()
    table = pa.table(columns)
    step = -(-table.num_rows // files)
    for number in range(files):
        pq.write_table(table.slice(number * step, step), place / name / f"part-{number:04}.parquet")


def texts(numbers: np.ndarray, text: str) -> pa.Array:
    """The numbers as parts of texts."""
    return pa.array([f"{text} {number}" for number in numbers.tolist()])


def prepare_clicks_in_order(place: Path, *, mended: bool) -> None:
    """Clicks, most of which come from one country."""
    del mended
    made = np.random.default_rng(1)
    country = np.where(made.random(CLICKS) < 0.7, 7, made.integers(0, 40, CLICKS))
    at = made.integers(0, 86_400_000, CLICKS)
    columns = {"country": country, "at": at, "page": made.integers(0, 3_000, CLICKS)}
    write_table(place, "clicks", 6, columns)


def clicks_in_order(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Number the clicks of each country and compare each with those before."""
    del mended
    clicks = spark.read.parquet(f"file://{place}/clicks")
    order = Window.partitionBy("country").orderBy("at")
    recent = order.rowsBetween(-30, 0)
    numbered = clicks.select(
        "*",
        f.row_number().over(order).alias("number"),
        (f.col("at") - f.lag("at").over(order)).alias("gap"),
        f.max("page").over(recent).alias("last"),
        f.stddev("page").over(recent).alias("spread"),
    )
    numbered.write.parquet(f"file://{place}/numbered")


def prepare_pages_seen_together(place: Path, *, mended: bool) -> None:
    """Twenty events in each session, and thousands in that of a crawler."""
    del mended
    made = np.random.default_rng(2)
    session = np.concatenate(
        [np.repeat(np.arange(SESSIONS), 20), np.full(LONG_SESSION, SESSIONS + 5)]
    )
    page = made.integers(0, 300, len(session))
    order = made.permutation(len(session))
    write_table(place, "events", 4, {"session": session[order], "page": page[order]})


def pages_seen_together(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Count pairs of pages that are seen in one session: a join of the events with themselves."""
    del mended
    spark.read.parquet(f"file://{place}/events").createOrReplaceTempView("events")
    pairs = spark.sql(
        "SELECT a.page AS page, b.page AS other, count(*) AS times"
        " FROM events a JOIN events b ON a.session = b.session AND a.page < b.page"
        " GROUP BY a.page, b.page"
    )
    pairs.write.parquet(f"file://{place}/pairs")


def prepare_paths_of_users(place: Path, *, mended: bool) -> None:
    """Lines of users and pages; one user has more than half of them."""
    del mended
    made = np.random.default_rng(3)
    user = np.where(made.random(VISITS) < 0.55, 0, made.integers(0, 9_000, VISITS))
    page = made.integers(0, 500, VISITS)
    (place / "visits").mkdir()
    lines = [f"{a},{b}\n" for a, b in zip(user.tolist(), page.tolist(), strict=True)]
    for number in range(8):
        (place / "visits" / f"{number}.csv").write_text("".join(lines[number::8]))


def paths_of_users(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Count, for each user, which page follows which, and after how many others."""
    del mended

    def steps(pages: Iterable[str]) -> tuple[int, int]:
        seen = list(pages)
        following = [
            len(Counter(zip(seen, seen[gap:], strict=False))) for gap in range(1, LONGEST_GAP)
        ]
        return following[0], max(following)

    lines = spark.sparkContext.textFile(f"file://{place}/visits/*.csv")
    visits = lines.map(lambda line: (line.partition(",")[0], line.partition(",")[2]))
    visits.groupByKey(8).mapValues(steps).saveAsTextFile(f"file://{place}/steps")


def prepare_distinct_events(place: Path, *, mended: bool) -> None:
    """Events, a few of which were delivered twice."""
    del mended
    made = np.random.default_rng(4)
    number = made.integers(0, EVENTS * 20, EVENTS)
    columns = {"event": number, "payload": texts(number * 7_919, "a payload of some length")}
    write_table(place, "events", 8, columns)


def distinct_events(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Events without repetitions, with a digest."""
    del mended
    events = spark.read.parquet(f"file://{place}/events")
    events = events.withColumn("digest", f.sha2(f.col("payload"), 512))
    events.distinct().write.parquet(f"file://{place}/distinct")


def prepare_latest_orders(place: Path, *, mended: bool) -> None:
    """Orders of many customers."""
    del mended
    made = np.random.default_rng(5)
    customer = made.integers(0, ORDERS // 4, ORDERS)
    address = texts(customer * 31 + made.integers(0, 9, ORDERS), "Some Street, Some Town, number")
    at = made.integers(0, 10**9, ORDERS)
    columns = {"customer": customer, "at": at, "amount": made.random(ORDERS), "address": address}
    write_table(place, "orders", 9, columns)


def latest_orders(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """The two latest orders of each customer."""
    del mended
    orders = spark.read.parquet(f"file://{place}/orders")
    orders = orders.withColumn("note", f.sha2("address", 512)).withColumn("key", f.md5("address"))
    place_of = f.row_number().over(Window.partitionBy("customer").orderBy(f.desc("at")))
    latest = orders.withColumn("place", place_of).filter("place <= 2")
    latest.write.parquet(f"file://{place}/latest")


def prepare_customers_broadcast(place: Path, *, mended: bool) -> None:
    """Many customers, and fewer sales."""
    del mended
    made = np.random.default_rng(6)
    customer = np.arange(CUSTOMERS)
    columns = {
        "customer": customer,
        "name": texts(customer, "Customer"),
        "street": texts(customer * 17, "A Street Of This Town, number"),
        "segment": made.integers(0, 12, CUSTOMERS),
    }
    write_table(place, "customers", 6, columns)
    sold = {"customer": made.integers(0, CUSTOMERS, SALES), "amount": made.random(SALES)}
    write_table(place, "sales", 4, sold)


def customers_broadcast(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Sales with the customers' names; a setting has every table broadcast."""
    del mended
    customers = spark.read.parquet(f"file://{place}/customers")
    sales = spark.read.parquet(f"file://{place}/sales")
    joined = sales.join(customers, "customer", "left")
    joined.filter("amount > 0.2").write.parquet(f"file://{place}/named")


def prepare_median_prices(place: Path, *, mended: bool) -> None:
    """Prices of a few regions, hardly any of them twice."""
    del mended
    made = np.random.default_rng(7)
    columns = {"region": made.integers(0, 24, PRICES), "price": made.random(PRICES)}
    write_table(place, "prices", 4, columns)


def median_prices(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Exact medians, for which all values have to be kept."""
    del mended
    prices = spark.read.parquet(f"file://{place}/prices")
    found = prices.groupBy("region").agg(
        f.expr("percentile(price, array(0.5, 0.9))"), f.avg("price")
    )
    found.write.parquet(f"file://{place}/medians")
