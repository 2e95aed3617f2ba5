"""Statistics of every auction and day."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.aggregates import count, max, mean, min, sum
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT auction, CAST(CAST(dateTime AS DATE) AS STRING) AS day, count(*) AS total_bids,
       count_if(price < 10000) AS rank1_bids, count_if(price >= 10000 AND price < 1000000) AS rank2_bids,
       count_if(price >= 1000000) AS rank3_bids,
       min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY 1, 2
"""


def day(at: pa.Array) -> pa.Array:
    """Day as text."""
    return pc.cast(pc.cast(at, pa.timestamp("us")), pa.date32()).cast(pa.string())


def low(price: pa.Array) -> pa.Array:
    """1 for cheap ones."""
    return pc.less(price, 10_000).cast(pa.int64())


def high(price: pa.Array) -> pa.Array:
    """1 for dear ones."""
    return pc.greater_equal(price, 1_000_000).cast(pa.int64())


def others(total_bids: pa.Array, rank1_bids: pa.Array, rank3_bids: pa.Array) -> pa.Array:
    """Neither cheap nor dear."""
    return pc.subtract(pc.subtract(total_bids, rank1_bids), rank3_bids)


def build(t: Tables) -> Stream:
    """Aggregates that change with every bid."""
    bids = t.bid.select(
        "auction",
        day=computed(day, "dateTime"),
        price="price",
        low=computed(low, "price"),
        high=computed(high, "price"),
    )
    made = bids.key_by("auction", "day").aggregate(
        total_bids=count(),
        rank1_bids=sum("low"),
        rank3_bids=sum("high"),
        min_price=min("price"),
        max_price=max("price"),
        avg_price=mean("price"),
        sum_price=sum("price"),
        name="statistics",
    )
    return made.select(
        "auction",
        "day",
        "total_bids",
        "rank1_bids",
        rank2_bids=computed(others, "total_bids", "rank1_bids", "rank3_bids"),
        rank3_bids="rank3_bids",
        min_price="min_price",
        max_price="max_price",
        avg_price="avg_price",
        sum_price="sum_price",
    )


QUERY = Query(name="q17", sql=SQL, build=build, reads=("bid",), keys=("auction", "day"))
