"""The last bid of every person for every auction."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT auction, bidder, max(dateTime) AS dateTime FROM bid GROUP BY auction, bidder
"""


def build(t: Tables) -> Stream:
    """Whole rows; of those of one time the one that came last, which SQL cannot say."""
    last = t.bid.key_by("auction", "bidder").latest(by="dateTime", name="last")
    return last.select("auction", "bidder", "dateTime")


QUERY = Query(name="q18", sql=SQL, build=build, reads=("bid",), keys=("auction", "bidder"))
