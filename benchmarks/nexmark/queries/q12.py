"""Bids of a person in every 10 seconds of processing time."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.aggregates import count
from rechannel.dataflow.streams.stream import Stream
from rechannel.windows import tumbling


def make(size: str = "10 seconds") -> Query:
    """The query. size: of the windows."""
    sql = f"""
    SELECT bidder, count(*) AS bids, window(p_time, '{size}').start AS starttime,
           window(p_time, '{size}').end AS endtime
    FROM bid GROUP BY bidder, window(p_time, '{size}')
    """

    def build(t: Tables) -> Stream:
        found = (
            t.bid.select("bidder")
            .key_by("bidder")
            .window(tumbling(size), time="processing")
            .aggregate(bids=count(), name="windows")
        )
        return found.select("bidder", "bids", starttime="window_start", endtime="window_end")

    return Query(name="q12", sql=sql, build=build, reads=("bid",), processing=True)


QUERY = make()
