"""Calculation: conversion, a range, the time of day, and how often a letter occurs."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.queries.q1 import euros
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT auction, bidder, 0.908D * price AS price,
       CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bidTimeType,
       dateTime, extra, CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts
FROM bid WHERE 0.908D * price > 1000000 AND 0.908D * price < 50000000
"""


def dear(price: pa.Array) -> pa.Array:
    """Prices in a range."""
    made = euros(price)
    return pc.and_(pc.greater(made, 1_000_000), pc.less(made, 50_000_000))


def time_of_day(at: pa.Array) -> pa.Array:
    """Day, night, or neither."""
    hour = pc.hour(at)
    day = pc.and_(pc.greater_equal(hour, 8), pc.less_equal(hour, 18))
    night = pc.or_(pc.less_equal(hour, 6), pc.greater_equal(hour, 20))
    return pc.case_when(
        pc.make_struct(day, night),
        pa.scalar("dayTime"),
        pa.scalar("nightTime"),
        pa.scalar("otherTime"),
    )


def letters(extra: pa.Array) -> pa.Array:
    """How many c there are."""
    return pc.count_substring(extra, "c").cast(pa.int64())


def build(t: Tables) -> Stream:
    """Vectorised functions, no state."""
    return t.bid.filter(computed(dear, "price")).select(
        "auction",
        "bidder",
        price=computed(euros, "price"),
        bidTimeType=computed(time_of_day, "dateTime"),
        dateTime="dateTime",
        extra="extra",
        c_counts=computed(letters, "extra"),
    )


QUERY = Query(name="q14", sql=SQL, build=build, reads=("bid",), stateful=False)
