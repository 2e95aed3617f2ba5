"""Local item suggestion: who sells in category 10 in three states, and which auctions."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.dataflow.streams.stream import Stream

SQL = """
SELECT P.name, P.city, P.state, A.id
FROM auction A JOIN person P ON A.seller = P.id
WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
"""
STATES = pa.array(["OR", "ID", "CA"])


def in_category(category: pa.Array) -> pa.Array:
    """Auctions of category 10."""
    return pc.equal(category, 10)


def nearby(state: pa.Array) -> pa.Array:
    """People of three states."""
    return pc.is_in(state, STATES)


def build(t: Tables) -> Stream:
    """For ever: a person may open an auction at any time."""
    auctions = t.auction.filter(computed(in_category, "category")).select(
        auction="id",
        seller="seller",
    )
    people = t.person.filter(computed(nearby, "state")).select(
        "id",
        "name",
        "city",
        "state",
    )
    found = auctions.join(people, {"seller": "id"}, name="suggestions")
    return found.select(
        "name",
        "city",
        "state",
        id="auction",
    )


QUERY = Query(name="q3", sql=SQL, build=build, reads=("auction", "person"))
