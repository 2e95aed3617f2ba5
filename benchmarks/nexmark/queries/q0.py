"""Pass through: what it costs to do nothing."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.dataflow.streams.stream import Stream

SQL = "SELECT auction, bidder, price, dateTime, extra FROM bid"


def build(t: Tables) -> Stream:
    """Five columns of the bids."""
    return t.bid.select("auction", "bidder", "price", "dateTime", "extra")


QUERY = Query(name="q0", sql=SQL, build=build, reads=("bid",), stateful=False)
