"""Currency conversion: prices in euros."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, select
from rechannel.dataflow.stream import Stream

SQL = "SELECT auction, bidder, 0.908D * price AS price, dateTime, extra FROM bid"
SCHEMA = "auction BIGINT, bidder BIGINT, price DOUBLE, dateTime TIMESTAMP, extra STRING"


def euros(batch: pa.RecordBatch) -> pa.Array:
    """0.908 of the price."""
    return pc.multiply(batch["price"].cast(pa.float64()), 0.908)


def build(t: Tables) -> Stream:
    """The price is computed."""
    return select(
        t.bid, SCHEMA, "auction", "bidder", price=euros, dateTime="dateTime", extra="extra"
    )


QUERY = Query(name="q1", sql=SQL, build=build, reads=("bid",), stateful=False)
