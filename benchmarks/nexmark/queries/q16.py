"""Bids, bidders and auctions of every channel and day."""

from benchmarks.nexmark.queries.q15 import build_by, counts_sql
from benchmarks.nexmark.queries.q17 import day
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.stream import Stream

SQL = f"SELECT channel, date_format(dateTime, 'yyyy-MM-dd') AS day, {counts_sql()} FROM bid GROUP BY 1, 2"


def build(t: Tables) -> Stream:
    """By channel and day; without the minute of the last bid."""
    return build_by(t, {"channel": "channel", "day": computed(day, "dateTime")}, "-of-channel")


QUERY = Query(name="q16", sql=SQL, build=build, reads=("bid",), keys=("channel", "day"))
