"""Bids, bidders and auctions of every day, in all and by price."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.queries.q17 import day
from benchmarks.nexmark.query import Query, Tables
from rechannel import computed
from rechannel.aggregates import max, sum
from rechannel.dataflow.streams.stream import Stream
from rechannel.kernels.functions.select import Computed

KINDS = ("bids", "bidders", "auctions")
RANKS = ("total", "rank1", "rank2", "rank3")
NAMES = [f"{rank}_{kind}" for kind in KINDS for rank in RANKS]
RANGES = ("true", "price < 10000", "price >= 10000 AND price < 1000000", "price >= 1000000")


def counts_sql() -> str:
    """All counts."""
    parts = []
    for kind, what in zip(KINDS, ("*", "DISTINCT bidder", "DISTINCT auction"), strict=True):
        for rank, where in zip(RANKS, RANGES, strict=True):
            parts.append(f"count({what}) FILTER (WHERE {where}) AS {rank}_{kind}")
    return ", ".join(parts)


SQL = f"SELECT date_format(dateTime, 'yyyy-MM-dd') AS day, {counts_sql()} FROM bid GROUP BY 1"


def rank(price: pa.Array) -> pa.Array:
    """1, 2 or 3 by price."""
    low = pc.less(price, 10_000).cast(pa.int64())
    high = pc.greater_equal(price, 1_000_000).cast(pa.int64())
    return pc.add(pc.subtract(pa.scalar(2, pa.int64()), low), high)


def adds(kind: str, ranked: bool) -> dict[str, Computed]:
    """What a row adds to every count: 1 to those of its kind and rank."""

    def one(name: str) -> Computed:
        which, _, of = name.partition("_")

        def made(rank: pa.Array) -> pa.Array:
            if of == kind and which == "total" and (kind == "bids" or not ranked):
                return pa.scalar(1, pa.int64())
            if of == kind and which != "total" and ranked:
                return pc.equal(rank, int(which[-1])).cast(pa.int64())
            return pa.scalar(0, pa.int64())

        return computed(made, "rank")

    return {name: one(name) for name in NAMES}


def build_by(
    t: Tables,
    keys: Mapping[str, str | Computed],
    more: str = "",
    latest: Mapping[str, Computed] | None = None,
) -> Stream:
    """Every bid adds to some counts; so does every bidder and auction that is new, in all or of its rank.

    more: appended to the names of the operators. latest: columns whose largest value is shown, too.
    """
    latest = latest or {}
    bids = t.bid.select(keys, latest, "bidder", "auction", rank=computed(rank, "price"))
    parts = [("bids", True, bids)]
    for kind, column in (("bidders", "bidder"), ("auctions", "auction")):
        parts.append((kind, False, bids.deduplicate(*keys, column, name=f"{kind}{more}")))
        parts.append(
            (kind, True, bids.deduplicate(*keys, "rank", column, name=f"{kind}-of-rank{more}"))
        )
    first, *others = (
        rows.select(*keys, *latest, adds(kind, ranked)) for kind, ranked, rows in parts
    )
    made = {name: max(name) for name in latest} | {name: sum(name) for name in NAMES}
    return first.union(*others).key_by(*keys).aggregate(made, name=f"statistics{more}")


def build(t: Tables) -> Stream:
    """By day."""
    return build_by(t, {"day": computed(day, "dateTime")})


QUERY = Query(name="q15", sql=SQL, build=build, reads=("bid",), keys=("day",))
