"""Highest bid of every 10 seconds."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.dataflow.streams.stream import Stream
from rechannel.windows import tumbling

SQL = """
SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra FROM (
  SELECT *, window(dateTime, '10 seconds') AS w FROM bid
) B JOIN (
  SELECT max(price) AS most, window(dateTime, '10 seconds') AS w FROM bid GROUP BY 2
) M ON B.w = M.w AND B.price = M.most
WHERE unix_micros(B.w.end) <= {end}
"""


def build(t: Tables) -> Stream:
    """The first row of every window in the order of prices, with all that are alike."""
    columns = ("auction", "price", "bidder", "dateTime", "extra")
    bids = t.bid.select(*columns)
    highest = bids.window(tumbling("10 seconds"), time_column="dateTime").top(
        1, by="price", ties=True, name="highest"
    )
    return highest.select(*columns)


QUERY = Query(name="q7", sql=SQL, build=build, reads=("bid",))
