"""Parts of addresses."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, select
from rechannel.dataflow.stream import Stream

SQL = """
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
       split_part(url, '/', 6) AS dir3
FROM bid
"""
SCHEMA = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING"


def part(number: int) -> Callable[[pa.RecordBatch], pa.Array]:
    """A part of the address, counted from 0."""

    def taken(batch: pa.RecordBatch) -> pa.Array:
        return pc.list_element(pc.split_pattern(batch["url"], "/"), number)

    return taken


def build(t: Tables) -> Stream:
    """Three parts."""
    return select(
        t.bid,
        SCHEMA,
        "auction",
        "bidder",
        "price",
        "channel",
        dir1=part(3),
        dir2=part(4),
        dir3=part(5),
    )


QUERY = Query(name="q22", sql=SQL, build=build, reads=("bid",), stateful=False)
