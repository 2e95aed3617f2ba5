"""Winning bids: of every auction, the highest bid that came while it was open."""

from benchmarks.nexmark.queries.q4 import open_then
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT id, item, category, price, bidder, at FROM (
  SELECT A.id, A.item, A.category, B.price, B.bidder, B.dateTime AS at,
         row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS place
  FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
) WHERE place = 1
"""


def build(t: Tables) -> Stream:
    """All offers of an auction meet in its key; the best one is shown whenever it is another one."""
    auctions = t.auction.select(
        "id",
        "item",
        "category",
        opened="dateTime",
        expires="expires",
    )
    bids = t.bid.select(
        "auction",
        "price",
        "bidder",
        at="dateTime",
    )
    offers = auctions.join(bids, {"id": "auction"}, name="offers").filter(
        computed(open_then, "at", "opened", "expires")
    )
    best = offers.key_by("id").top(
        1, by=["price", "at"], descending=[True, False], rank=None, name="best"
    )
    return best.select("id", "item", "category", "price", "bidder", "at")


QUERY = Query(name="q9", sql=SQL, build=build, reads=("auction", "bid"), keys=("id",))
