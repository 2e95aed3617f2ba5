"""Local item suggestion: who sells in category 10 in three states, and which auctions."""

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.query import Query, Tables, select, where
from rechannel.dataflow.stream import Stream

SQL = """
SELECT P.name, P.city, P.state, A.id
FROM auction A JOIN person P ON A.seller = P.id
WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
"""
STATES = pa.array(["OR", "ID", "CA"])


def in_category(batch: pa.RecordBatch) -> pa.Array:
    """Auctions of category 10."""
    return pc.equal(batch["category"], 10)


def nearby(batch: pa.RecordBatch) -> pa.Array:
    """People of three states."""
    return pc.is_in(batch["state"], STATES)


def build(t: Tables) -> Stream:
    """For ever: a person may open an auction at any time."""
    auctions = select(
        where(t.auction, in_category),
        "auction BIGINT, seller BIGINT",
        auction="id",
        seller="seller",
    )
    people = select(
        where(t.person, nearby),
        "id BIGINT, name STRING, city STRING, state STRING",
        "id", "name", "city", "state",
    )  # fmt: skip
    found = auctions.join(people, {"seller": "id"}, name="suggestions")
    return select(
        found,
        "name STRING, city STRING, state STRING, id BIGINT",
        "name",
        "city",
        "state",
        id="auction",
    )


QUERY = Query(name="q3", sql=SQL, build=build, reads=("auction", "person"))
