"""Log to files: all bids, in directories by day and minute."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.queries.q17 import day
from benchmarks.nexmark.query import Query, Tables, select
from rechannel.dataflow.stream import Stream

SQL = """
SELECT auction, bidder, price, dateTime, extra, date_format(dateTime, 'yyyy-MM-dd') AS dt,
       date_format(dateTime, 'HH:mm') AS hm
FROM bid
"""
SCHEMA = "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP, extra STRING, dt STRING, hm STRING"


def minute(batch: pa.RecordBatch) -> pa.Array:
    """Hour and minute as text."""
    return pc.strftime(pc.cast(batch["dateTime"], pa.timestamp("us")), "%H:%M")


def build(t: Tables) -> Stream:
    """Rows with the columns by which a sink makes directories."""
    columns = ("auction", "bidder", "price", "dateTime", "extra")
    return select(t.bid, SCHEMA, *columns, dt=day, hm=minute)


QUERY = Query(
    name="q10", sql=SQL, build=build, reads=("bid",), stateful=False, partitions=("dt", "hm")
)
