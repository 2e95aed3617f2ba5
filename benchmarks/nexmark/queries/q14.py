"""Calculation: conversion, a range, the time of day, and how often a letter occurs."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.queries.q1 import euros
from benchmarks.nexmark.query import Query, Tables, select, where
from rechannel.dataflow.stream import Stream

SQL = """
SELECT auction, bidder, 0.908D * price AS price,
       CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
       dateTime, extra, CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts
FROM bid WHERE 0.908D * price > 1000000 AND 0.908D * price < 50000000
"""
SCHEMA = (
    "auction BIGINT, bidder BIGINT, price DOUBLE, bidTimeType STRING, dateTime TIMESTAMP, extra STRING,"
    " c_counts BIGINT"
)


def dear(batch: pa.RecordBatch) -> pa.Array:
    """Prices in a range."""
    price = euros(batch)
    return pc.and_(pc.greater(price, 1_000_000), pc.less(price, 50_000_000))


def time_of_day(batch: pa.RecordBatch) -> pa.Array:
    """Day, night, or neither."""
    hour = pc.hour(batch["dateTime"])
    day = pc.and_(pc.greater_equal(hour, 8), pc.less_equal(hour, 18))
    night = pc.or_(pc.less_equal(hour, 6), pc.greater_equal(hour, 20))
    return pc.case_when(
        pc.make_struct(day, night),
        pa.scalar("dayTime"),
        pa.scalar("nightTime"),
        pa.scalar("otherTime"),
    )


def letters(batch: pa.RecordBatch) -> pa.Array:
    """How many c there are."""
    return pc.count_substring(batch["extra"], "c").cast(pa.int64())


def build(t: Tables) -> Stream:
    """Vectorised functions, no state."""
    return select(
        where(t.bid, dear),
        SCHEMA,
        "auction", "bidder",
        price=euros, bidTimeType=time_of_day, dateTime="dateTime", extra="extra", c_counts=letters,
    )  # fmt: skip


QUERY = Query(name="q14", sql=SQL, build=build, reads=("bid",), stateful=False)
