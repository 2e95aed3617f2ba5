"""Average price of a category: of the highest bids that came while their auction was open."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.aggregates import count, sum
from rechannel.dataflow.streams.stream import Stream
from rechannel.operators.process.track_frame import KeyedFrame

SQL = """
SELECT category, CAST(avg(final) AS BIGINT) AS price FROM (
  SELECT max(B.price) AS final, A.category
  FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.category
) GROUP BY category
"""


def open_then(at: pa.Array, opened: pa.Array, expires: pa.Array) -> pa.Array:
    """Bids of the time in which their auction was open."""
    return pc.and_(pc.greater_equal(at, opened), pc.less_equal(at, expires))


def highest(frame: KeyedFrame) -> dict[str, np.ndarray]:
    """The highest bid of an auction so far, by how much it has grown, and whether it is the first."""
    before = frame.previous("final", 0)
    final = np.maximum(before, frame.max("price", 0))
    return {"final": final, "gained": final - before, "fresh": (~frame.found).astype(np.int64)}


def average(total: pa.Array, auctions: pa.Array) -> pa.Array:
    """Whole part of the mean."""
    return pc.divide(total, auctions)


def build(t: Tables) -> Stream:
    """The mean of a category changes by what the highest bids of its auctions gain."""
    auctions = t.auction.select(
        "id",
        "category",
        opened="dateTime",
        expires="expires",
    )
    bids = t.bid.select("auction", "price", at="dateTime")
    offers = auctions.join(bids, {"id": "auction"}, name="offers").filter(
        computed(open_then, "at", "opened", "expires")
    )
    finals = offers.key_by("id", "category").track_batches(
        highest, state="final BIGINT, gained BIGINT, fresh BIGINT", name="finals"
    )
    means = finals.key_by("category").aggregate(
        total=sum("gained"), auctions=sum("fresh"), changes=count(), name="means"
    )
    return means.select("category", price=computed(average, "total", "auctions"))


QUERY = Query(name="q4", sql=SQL, build=build, reads=("auction", "bid"), keys=("category",))
