"""New users: people who opened an auction in the 10 seconds in which they came."""

from benchmarks.nexmark.query import Query, Tables
from rechannel import tumbling
from rechannel.dataflow.stream import Stream

SQL = """
SELECT DISTINCT P.id, P.name, P.w.start AS starttime
FROM (SELECT id, name, window(dateTime, '10 seconds') AS w FROM person) P
JOIN (SELECT seller, window(dateTime, '10 seconds') AS w FROM auction) A ON P.id = A.seller AND P.w = A.w
"""


def build(t: Tables) -> Stream:
    """Every person once, with the first auction."""
    people = t.person.select("id", "name", "dateTime")
    sellers = t.auction.select("seller", "dateTime")
    new = people.join(
        sellers,
        {"id": "seller"},
        how="semi",
        within=tumbling("10 seconds"),
        left_time="dateTime",
        right_time="dateTime",
        name="new",
    )
    return new.select("id", "name", starttime="window_start")


QUERY = Query(name="q8", sql=SQL, build=build, reads=("person", "auction"))
