"""Statistics of every auction and day."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, select
from rechannel import count, max, mean, min, sum
from rechannel.dataflow.stream import Stream

SQL = """
SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day, count(*) AS total_bids,
       count_if(price < 10000) AS rank1_bids, count_if(price >= 10000 AND price < 1000000) AS rank2_bids,
       count_if(price >= 1000000) AS rank3_bids,
       min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY 1, 2
"""


def day(batch: pa.RecordBatch) -> pa.Array:
    """Day as text."""
    return pc.cast(pc.cast(batch["dateTime"], pa.timestamp("us")), pa.date32()).cast(pa.string())


def low(batch: pa.RecordBatch) -> pa.Array:
    """1 for cheap ones."""
    return pc.less(batch["price"], 10_000).cast(pa.int64())


def high(batch: pa.RecordBatch) -> pa.Array:
    """1 for dear ones."""
    return pc.greater_equal(batch["price"], 1_000_000).cast(pa.int64())


def others(batch: pa.RecordBatch) -> pa.Array:
    """Neither cheap nor dear."""
    return pc.subtract(pc.subtract(batch["total_bids"], batch["rank1_bids"]), batch["rank3_bids"])


def build(t: Tables) -> Stream:
    """Aggregates that change with every bid."""
    bids = select(
        t.bid, "auction BIGINT, day STRING, price BIGINT, low BIGINT, high BIGINT",
        "auction", day=day, price="price", low=low, high=high,
    )  # fmt: skip
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
    return select(
        made,
        "auction BIGINT, day STRING, total_bids BIGINT, rank1_bids BIGINT, rank2_bids BIGINT, rank3_bids BIGINT,"
        " min_price BIGINT, max_price BIGINT, avg_price DOUBLE, sum_price BIGINT",
        "auction", "day", "total_bids", "rank1_bids", rank2_bids=others, rank3_bids="rank3_bids",
        min_price="min_price", max_price="max_price", avg_price="avg_price", sum_price="sum_price",
    )  # fmt: skip


QUERY = Query(name="q17", sql=SQL, build=build, reads=("bid",), keys=("auction", "day"))
