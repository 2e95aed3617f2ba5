"""Log to files: all bids, in directories by day and minute."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.queries.q17 import day
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT auction, bidder, price, dateTime, extra, date_format(dateTime, 'yyyy-MM-dd') AS dt,
       date_format(dateTime, 'HH:mm') AS hm
FROM bid
"""


def minute(at: pa.Array) -> pa.Array:
    """Hour and minute as text."""
    return pc.strftime(pc.cast(at, pa.timestamp("us")), "%H:%M")


def build(t: Tables) -> Stream:
    """Rows with the columns by which a sink makes directories."""
    columns = ("auction", "bidder", "price", "dateTime", "extra")
    return t.bid.select(*columns, dt=computed(day, "dateTime"), hm=computed(minute, "dateTime"))


QUERY = Query(
    name="q10", sql=SQL, build=build, reads=("bid",), stateful=False, partitions=("dt", "hm")
)
