"""Currency conversion: prices in euros."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.stream import Stream

SQL = "SELECT auction, bidder, 0.908D * price AS price, dateTime, extra FROM bid"


def euros(price: pa.Array) -> pa.Array:
    """0.908 of the price."""
    return pc.multiply(price.cast(pa.float64()), 0.908)


def build(t: Tables) -> Stream:
    """The price is computed."""
    return t.bid.select(
        "auction", "bidder", price=computed(euros, "price"), dateTime="dateTime", extra="extra"
    )


QUERY = Query(name="q1", sql=SQL, build=build, reads=("bid",), stateful=False)
