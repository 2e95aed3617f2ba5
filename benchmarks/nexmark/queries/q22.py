"""Parts of addresses."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream
from rechannel.kernels.functions.select import Computed

SQL = """
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
       split_part(url, '/', 6) AS dir3
FROM bid
"""


def part(number: int) -> Computed:
    """A part of the address, counted from 0."""

    def taken(url: pa.Array) -> pa.Array:
        return pc.list_element(pc.split_pattern(url, "/"), number)

    return computed(taken, "url")


def build(t: Tables) -> Stream:
    """Three parts."""
    return t.bid.select(
        "auction",
        "bidder",
        "price",
        "channel",
        dir1=part(3),
        dir2=part(4),
        dir3=part(5),
    )


QUERY = Query(name="q22", sql=SQL, build=build, reads=("bid",), stateful=False)
