"""Selection: bids for some auctions."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, mod
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = "SELECT auction, price FROM bid WHERE auction % 123 = 0"


def chosen(auction: pa.Array) -> pa.Array:
    """Every 123rd auction."""
    return pc.equal(mod(auction, 123), 0)


def build(t: Tables) -> Stream:
    """A filter and two columns."""
    return t.bid.filter(computed(chosen, "auction")).select("auction", "price")


QUERY = Query(name="q2", sql=SQL, build=build, reads=("bid",), stateful=False)
