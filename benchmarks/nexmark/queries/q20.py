"""Bids with what they are for, in category 10."""

from benchmarks.nexmark.queries.q3 import in_category
from benchmarks.nexmark.query import Query, Tables, select, where
from rechannel.dataflow.stream import Stream

SQL = """
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime AS at, A.item, A.seller, A.category
FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10
"""
SCHEMA = (
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP, item STRING,"
    " seller BIGINT, category BIGINT"
)


def build(t: Tables) -> Stream:
    """For ever: people bid for auctions that are not open yet, or are closed."""
    bids = select(
        t.bid, "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, at TIMESTAMP",
        "auction", "bidder", "price", "channel", "url", at="dateTime",
    )  # fmt: skip
    auctions = select(
        where(t.auction, in_category),
        "id BIGINT, item STRING, seller BIGINT, category BIGINT",
        "id", "item", "seller", "category",
    )  # fmt: skip
    found = bids.join(auctions, {"auction": "id"}, name="expanded")
    columns = ("auction", "bidder", "price", "channel", "url", "at", "item", "seller", "category")
    return select(found, SCHEMA, *columns)


QUERY = Query(name="q20", sql=SQL, build=build, reads=("bid", "auction"))
