"""Bids of people who have something in an auction themselves, with who they are and what they sell."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT B.bidder, B.price, B.channel, B.url, B.extra AS bid_extra,
       P.name, P.email, P.card, P.city, P.state, P.extra AS person_extra,
       A.item, A.description, A.initialBid, A.reserve, A.dateTime AS auction_at, A.expires, A.category,
       A.extra AS auction_extra
FROM bid B JOIN person P ON P.id = B.bidder JOIN auction A ON A.seller = B.bidder
"""
"""Without P.id and A.seller, which are the bidder once more."""

PERSON = ("name", "email", "card", "city", "state")
AUCTION = ("item", "description", "initialBid", "reserve", "expires", "category")
BID = ("bidder", "price", "channel", "url")


def build(t: Tables) -> Stream:
    """Two joins for ever: who sells meets what they sell, and then every bid."""
    people = t.person.select("id", *PERSON, person_extra="extra")
    auctions = t.auction.select("seller", *AUCTION, auction_at="dateTime", auction_extra="extra")
    bids = t.bid.select(*BID, bid_extra="extra")
    sellers = people.join(auctions, {"id": "seller"}, name="sellers")
    found = bids.join(sellers, {"bidder": "id"}, name="expanded")
    early, late = AUCTION[:-2], AUCTION[-2:]
    return found.select(
        *BID, "bid_extra", *PERSON, "person_extra", *early, "auction_at", *late, "auction_extra"
    )


QUERY = Query(name="q23", sql=SQL, build=build, reads=("bid", "person", "auction"))
