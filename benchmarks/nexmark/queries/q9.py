"""Winning bids: of every auction, the highest bid that came while it was open."""

from benchmarks.nexmark.queries.q4 import open_then
from benchmarks.nexmark.query import Query, Tables, select, where
from rechannel.dataflow.stream import Stream

SQL = """
SELECT id, item, category, price, bidder, at FROM (
  SELECT A.id, A.item, A.category, B.price, B.bidder, B.dateTime AS at,
         row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS place
  FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
) WHERE place = 1
"""
SCHEMA = "id BIGINT, item STRING, category BIGINT, price BIGINT, bidder BIGINT, at TIMESTAMP"


def build(t: Tables) -> Stream:
    """All offers of an auction meet in its key; the best one is shown whenever it is another one."""
    auctions = select(
        t.auction,
        "id BIGINT, item STRING, category BIGINT, opened TIMESTAMP, expires TIMESTAMP",
        "id", "item", "category", opened="dateTime", expires="expires",
    )  # fmt: skip
    bids = select(
        t.bid,
        "auction BIGINT, price BIGINT, bidder BIGINT, at TIMESTAMP",
        "auction",
        "price",
        "bidder",
        at="dateTime",
    )
    offers = where(auctions.join(bids, {"id": "auction"}, name="offers"), open_then)
    best = offers.key_by("id").top(
        1, by=["price", "at"], descending=[True, False], rank=None, name="best"
    )
    return select(best, SCHEMA, "id", "item", "category", "price", "bidder", "at")


QUERY = Query(name="q9", sql=SQL, build=build, reads=("auction", "bid"), keys=("id",))
