"""Pass through: what it costs to do nothing."""

from benchmarks.nexmark.query import Query, Tables, select
from rechannel.dataflow.stream import Stream

SQL = "SELECT auction, bidder, price, dateTime, extra FROM bid"
SCHEMA = "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP, extra STRING"


def build(t: Tables) -> Stream:
    """Five columns of the bids."""
    return select(t.bid, SCHEMA, "auction", "bidder", "price", "dateTime", "extra")


QUERY = Query(name="q0", sql=SQL, build=build, reads=("bid",), stateful=False)
