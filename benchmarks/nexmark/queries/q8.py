"""New users: people who opened an auction in the 10 seconds in which they came."""

from benchmarks.nexmark.query import Query, Tables
from rechannel.dataflow.streams.stream import Stream
from rechannel.windows import tumbling


def make(size: str = "10 seconds") -> Query:
    """The query. size: of the windows."""
    sql = f"""
    SELECT DISTINCT P.id, P.name, P.w.start AS starttime
    FROM (SELECT id, name, window(dateTime, '{size}') AS w FROM person) P
    JOIN (SELECT seller, window(dateTime, '{size}') AS w FROM auction) A ON P.id = A.seller AND P.w = A.w
    """

    def build(t: Tables) -> Stream:
        """Every person once, with the first auction."""
        people = t.person.select("id", "name", "dateTime")
        sellers = t.auction.select("seller", "dateTime")
        new = people.join(
            sellers,
            {"id": "seller"},
            how="semi",
            within=tumbling(size),
            left_time_column="dateTime",
            right_time_column="dateTime",
            name="new",
        )
        return new.select("id", "name", starttime="window_start")

    return Query(name="q8", sql=sql, build=build, reads=("person", "auction"))


QUERY = make()
