"""Average selling price of a seller: of the last ten auctions that closed with a bid."""

import polars as pl

from benchmarks.nexmark.queries.q4 import open_then
from benchmarks.nexmark.query import Query, Tables
from rechannel import between, computed
from rechannel.dataflow.streams.stream import Stream
from rechannel.operators.process.track_frame import KeyedFrame
from rechannel.windows import tumbling

LAST = 10
LONGEST_S = 4
"""No auction is open for longer, where 1,000 events or more are a second."""

SQL = f"""
SELECT seller, avg(price) AS price FROM (
  SELECT seller, price, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS age FROM (
    SELECT A.id, A.seller, A.expires, max(B.price) AS price
    FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
    WHERE unix_micros(A.expires) + 1000 <= {{end}} - {LONGEST_S * 1_000_000 + 1}
    GROUP BY A.id, A.seller, A.expires
  )
) WHERE age <= {LAST} GROUP BY seller
"""


def last_ten(frame: KeyedFrame) -> pl.DataFrame:
    """The latest prices of every seller, in the order in which auctions closed, and their mean."""
    came = (
        frame.to_polars()
        .sort("_key", "window_start", "id")
        .group_by("_key", maintain_order=True)
        .agg("price")
    )
    none = pl.lit([], dtype=pl.List(pl.Int64))
    before = pl.Series("before", frame.state.column("prices"), dtype=pl.List(pl.Int64))
    prices = pl.concat_list(pl.col("before").fill_null(none), "price").list.tail(LAST)
    return (
        came.with_columns(before)
        .select(prices=prices)
        .with_columns(price=pl.col("prices").list.mean())
    )


def build(t: Tables) -> Stream:
    """An auction closes when event time has passed its end: it is alone in a window of that millisecond."""
    auctions = t.auction.select("id", "seller", opened="dateTime", expires="expires")
    bids = t.bid.select("auction", "price", at="dateTime")
    found = auctions.join(
        bids,
        {"id": "auction"},
        within=between(0, f"{LONGEST_S} seconds"),
        left_time_column="opened",
        right_time_column="at",
        name="offers",
    )
    winners = (
        found.filter(computed(open_then, "at", "opened", "expires"))
        .key_by("id", "seller")
        .window(tumbling("1 millisecond"), time_column="expires")
        .top(1, by="price", rank=None, name="winners")
    )
    means = winners.key_by("seller").track_batches(
        last_ten, state="prices ARRAY<BIGINT>, price DOUBLE", name="means"
    )
    return means.select("seller", "price")


QUERY = Query(name="q6", sql=SQL, build=build, reads=("auction", "bid"), keys=("seller",))
