"""Bids, bidders and auctions of every channel and day, and the latest minute with a bid."""

from benchmarks.nexmark.queries.q10 import minute
from benchmarks.nexmark.queries.q15 import build_by, counts_sql
from benchmarks.nexmark.queries.q17 import day
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream
from rechannel.kernels.functions.select import Computed

SQL = f"""
SELECT channel, date_format(dateTime, 'yyyy-MM-dd') AS day, max(date_format(dateTime, 'HH:mm')) AS minute,
       {counts_sql()}
FROM bid GROUP BY 1, 2
"""


def build(t: Tables) -> Stream:
    """By channel and day."""
    keys: dict[str, str | Computed] = {"channel": "channel", "day": computed(day, "dateTime")}
    return build_by(t, keys, "-of-channel", {"minute": computed(minute, "dateTime")})


QUERY = Query(name="q16", sql=SQL, build=build, reads=("bid",), keys=("channel", "day"))
