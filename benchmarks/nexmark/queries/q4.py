"""Average price of a category: of the highest bids that came while their auction was open."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, select, where
from rechannel import count, sum
from rechannel.dataflow.stream import Stream
from rechannel.kernels.track_frame import KeyedFrame

SQL = """
SELECT category, CAST(avg(final) AS BIGINT) AS price FROM (
  SELECT max(B.price) AS final, A.category
  FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires
  GROUP BY A.id, A.category
) GROUP BY category
"""


def open_then(batch: pa.RecordBatch) -> pa.Array:
    """Bids of the time in which their auction was open."""
    at = batch["at"]
    return pc.and_(pc.greater_equal(at, batch["opened"]), pc.less_equal(at, batch["expires"]))


def highest(frame: KeyedFrame) -> dict[str, np.ndarray]:
    """The highest bid of an auction so far, by how much it has grown, and whether it is the first."""
    before = frame.previous("final", 0)
    final = np.maximum(before, frame.max("price", 0))
    return {"final": final, "gained": final - before, "fresh": (~frame.found).astype(np.int64)}


def average(batch: pa.RecordBatch) -> pa.Array:
    """Whole part of the mean."""
    return pc.divide(batch["total"], batch["auctions"])


def build(t: Tables) -> Stream:
    """The mean of a category changes by what the highest bids of its auctions gain."""
    auctions = select(
        t.auction,
        "id BIGINT, category BIGINT, opened TIMESTAMP, expires TIMESTAMP",
        "id", "category", opened="dateTime", expires="expires",
    )  # fmt: skip
    bids = select(
        t.bid, "auction BIGINT, price BIGINT, at TIMESTAMP", "auction", "price", at="dateTime"
    )
    offers = where(auctions.join(bids, {"id": "auction"}, name="offers"), open_then)
    finals = offers.key_by("id", "category").track_batches(
        highest, state="final BIGINT, gained BIGINT, fresh BIGINT", name="finals"
    )
    means = finals.key_by("category").aggregate(
        total=sum("gained"), auctions=sum("fresh"), changes=count(), name="means"
    )
    return select(means, "category BIGINT, price BIGINT", "category", price=average)


QUERY = Query(name="q4", sql=SQL, build=build, reads=("auction", "bid"), keys=("category",))
