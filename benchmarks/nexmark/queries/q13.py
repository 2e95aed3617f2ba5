"""Bids with what a table says of their auction."""

import pyarrow as pa

from benchmarks.nexmark.query import Query, Tables, mod
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

ROWS = 10_000
SQL = f"""
SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
FROM bid B JOIN (SELECT id AS key, concat('value-', id) AS value FROM range({ROWS})) S ON B.auction % {ROWS} = S.key
"""
SIDE = pa.array([f"value-{key}" for key in range(ROWS)])


def value(auction: pa.Array) -> pa.Array:
    """What the table says: its keys are 0, 1, 2 and so on."""
    return SIDE.take(mod(auction, ROWS))


def build(t: Tables) -> Stream:
    """The table is in every worker."""
    return t.bid.select("auction", "bidder", "price", "dateTime", value=computed(value, "auction"))


QUERY = Query(name="q13", sql=SQL, build=build, reads=("bid",), stateful=False)
