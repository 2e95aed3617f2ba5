"""Selection: bids for some auctions."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, mod, select, where
from rechannel.dataflow.stream import Stream

SQL = "SELECT auction, price FROM bid WHERE auction % 123 = 0"


def chosen(batch: pa.RecordBatch) -> pa.Array:
    """Every 123rd auction."""
    return pc.equal(mod(batch["auction"], 123), 0)


def build(t: Tables) -> Stream:
    """A filter and two columns."""
    return select(where(t.bid, chosen), "auction BIGINT, price BIGINT", "auction", "price")


QUERY = Query(name="q2", sql=SQL, build=build, reads=("bid",), stateful=False)
