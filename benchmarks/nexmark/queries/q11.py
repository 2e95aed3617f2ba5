"""User sessions: bids of a person with less than 10 seconds between them."""

from benchmarks.nexmark.query import Query, Tables
from rechannel import count, sessions
from rechannel.dataflow.stream import Stream

SQL = """
SELECT bidder, count(*) AS bids, session_window(dateTime, '10 seconds').start AS starttime,
       session_window(dateTime, '10 seconds').end AS endtime
FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')
HAVING unix_micros(max(dateTime)) + 10000000 <= {end}
"""
"""Not `session_window.end <= ...`: Spark filters rows by that before it puts them into sessions."""


def build(t: Tables) -> Stream:
    """A session is shown when it is over."""
    found = (
        t.bid.key_by("bidder")
        .window(sessions("10 seconds"))
        .aggregate(bids=count(), name="sessions")
    )
    return found.select(
        "bidder",
        "bids",
        starttime="window_start",
        endtime="window_end",
    )


QUERY = Query(name="q11", sql=SQL, build=build, reads=("bid",))
