"""Hot items: the auctions with the most bids in the last 10 seconds, every 2 seconds."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.aggregates import count
from rechannel.dataflow.streams.stream import Stream
from rechannel.windows import same_window, sliding


def make(size: str = "10 seconds", every: str = "2 seconds") -> Query:
    """The query. size, every: of the windows."""
    sql = f"""
    SELECT auction, num FROM (
      SELECT auction, num, w, rank() OVER (PARTITION BY w ORDER BY num DESC) AS place FROM (
        SELECT auction, count(*) AS num, window(dateTime, '{size}', '{every}') AS w FROM bid GROUP BY 1, 3
      ) WHERE unix_micros(w.end) <= {{end}}
    ) WHERE place = 1
    """

    def build(t: Tables) -> Stream:
        """Counts out of panes; then the best of every window."""
        counts = t.bid.key_by("auction").window(sliding(size, every))
        found = counts.aggregate(num=count(), name="counts")
        hottest = found.window(same_window()).top(1, by="num", ties=True, name="hottest")
        return hottest.select("auction", "num")

    return Query(name="q5", sql=sql, build=build, reads=("bid",))


QUERY = make()
