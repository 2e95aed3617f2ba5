"""Bids with what they are for, in category 10."""

from benchmarks.nexmark.queries.q3 import in_category
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime AS at, A.item, A.seller, A.category
FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10
"""


def build(t: Tables) -> Stream:
    """For ever: people bid for auctions that are not open yet, or are closed."""
    bids = t.bid.select(
        "auction",
        "bidder",
        "price",
        "channel",
        "url",
        at="dateTime",
    )
    auctions = t.auction.filter(computed(in_category, "category")).select(
        "id",
        "item",
        "seller",
        "category",
    )
    found = bids.join(auctions, {"auction": "id"}, name="expanded")
    columns = ("auction", "bidder", "price", "channel", "url", "at", "item", "seller", "category")
    return found.select(*columns)


QUERY = Query(name="q20", sql=SQL, build=build, reads=("bid", "auction"))
