"""User sessions: bids of a person with at most 10 seconds between them."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.aggregates import count
from rechannel.dataflow.streams.stream import Stream
from rechannel.windows import sessions


def make(gap_us: int = 10_000_000) -> Query:
    """The query. gap_us: longer without a bid ends a session."""
    window = f"session_window(dateTime, '{gap_us} microseconds')"
    # Not `session_window.end <= ...`: Spark filters rows by that before it puts them into sessions.
    sql = f"""
    SELECT bidder, count(*) AS bids, {window}.start AS starttime, {window}.end AS endtime
    FROM bid GROUP BY bidder, {window}
    HAVING unix_micros(max(dateTime)) + {gap_us} < {{end}}
    """

    def build(t: Tables) -> Stream:
        """A session is shown when it is over."""
        found = (
            t.bid.key_by("bidder")
            .window(sessions(f"{gap_us} microseconds"))
            .aggregate(bids=count(), name="sessions")
        )
        return found.select("bidder", "bids", starttime="window_start", endtime="window_end")

    return Query(name="q11", sql=sql, build=build, reads=("bid",))


QUERY = make()
