"""Hot items: the auctions with the most bids in the last 10 seconds, every 2 seconds."""

from benchmarks.nexmark.query import Query, Tables
from rechannel import count, same_window, sliding
from rechannel.dataflow.stream import Stream

SQL = """
SELECT auction, num FROM (
  SELECT auction, num, w, rank() OVER (PARTITION BY w ORDER BY num DESC) AS place FROM (
    SELECT auction, count(*) AS num, window(dateTime, '10 seconds', '2 seconds') AS w FROM bid GROUP BY 1, 3
  ) WHERE unix_micros(w.end) <= {end}
) WHERE place = 1
"""


def build(t: Tables) -> Stream:
    """Counts out of panes; then the best of every window."""
    counts = t.bid.key_by("auction").window(sliding("10 seconds", "2 seconds"))
    found = counts.aggregate(num=count(), name="counts")
    hottest = found.window(same_window()).top(1, by="num", ties=True, name="hottest")
    return hottest.select("auction", "num")


QUERY = Query(name="q5", sql=SQL, build=build, reads=("bid",))
