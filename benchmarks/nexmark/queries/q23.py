"""Bids of people who have something in an auction themselves, with who they are and what they sell."""

from benchmarks.nexmark.query import Query, Tables, select
from rechannel.dataflow.stream import Stream

SQL = """
SELECT B.bidder, B.price, B.channel, B.url, B.extra AS bid_extra,
       P.name, P.email, P.card, P.city, P.state, P.extra AS person_extra,
       A.item, A.description, A.initialBid, A.reserve, A.dateTime AS auction_at, A.expires, A.category,
       A.extra AS auction_extra
FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder
"""
"""Without P.id and A.seller, which are the bidder once more."""

PERSON = "name STRING, email STRING, card STRING, city STRING, state STRING, person_extra STRING"
AUCTION = (
    "item STRING, description STRING, initialBid BIGINT, reserve BIGINT, auction_at TIMESTAMP, expires TIMESTAMP,"
    " category BIGINT, auction_extra STRING"
)
BID = "bidder BIGINT, price BIGINT, channel STRING, url STRING, bid_extra STRING"


def build(t: Tables) -> Stream:
    """Two joins for ever: who sells meets what they sell, and then every bid."""
    people = select(
        t.person, f"id BIGINT, {PERSON}",
        "id", "name", "email", "card", "city", "state", person_extra="extra",
    )  # fmt: skip
    auctions = select(
        t.auction, f"seller BIGINT, {AUCTION}",
        "seller", "item", "description", "initialBid", "reserve",
        auction_at="dateTime", expires="expires", category="category", auction_extra="extra",
    )  # fmt: skip
    bids = select(t.bid, BID, "bidder", "price", "channel", "url", bid_extra="extra")
    sellers = people.join(auctions, {"id": "seller"}, name="sellers")
    found = bids.join(sellers, {"bidder": "id"}, name="expanded")
    schema = f"{BID}, {PERSON}, {AUCTION}"
    return select(found, schema, *(column.split()[0] for column in schema.split(", ")))


QUERY = Query(name="q23", sql=SQL, build=build, reads=("bid", "person", "auction"))
