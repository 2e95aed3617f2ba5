"""The ten highest bids of every auction."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT auction, place, price FROM (
  SELECT auction, price, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid
) WHERE place <= 10
"""


def build(t: Tables) -> Stream:
    """Ranks whose bid is another one are shown."""
    best = t.bid.key_by("auction").top(10, by="price", rank="place", name="best")
    return best.select("auction", "place", "price")


QUERY = Query(name="q19", sql=SQL, build=build, reads=("bid",), keys=("auction", "place"))
