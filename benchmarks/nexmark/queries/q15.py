"""Bids, bidders and auctions of every day, in all and by price."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark.queries.q17 import day
from benchmarks.nexmark.query import Query, Tables, select
from rechannel import sum
from rechannel.dataflow.stream import Stream

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


def rank(batch: pa.RecordBatch) -> pa.Array:
    """1, 2 or 3 by price."""
    low = pc.less(batch["price"], 10_000).cast(pa.int64())
    high = pc.greater_equal(batch["price"], 1_000_000).cast(pa.int64())
    return pc.add(pc.subtract(pa.scalar(2, pa.int64()), low), high)


def adds(kind: str, ranked: bool) -> dict[str, Callable[[pa.RecordBatch], pa.Array]]:
    """What a row adds to every count: 1 to those of its kind and rank."""

    def one(name: str) -> Callable[[pa.RecordBatch], pa.Array]:
        which, _, of = name.partition("_")

        def made(batch: pa.RecordBatch) -> pa.Array:
            ones = np.zeros(batch.num_rows, dtype=np.int64)
            if of == kind and which == "total" and (kind == "bids" or not ranked):
                ones[:] = 1
            elif of == kind and which != "total" and ranked:
                ones = (batch["rank"].to_numpy() == int(which[-1])).astype(np.int64)
            return pa.array(ones)

        return made

    return {name: one(name) for name in NAMES}


def build_by(t: Tables, keys: Sequence[tuple[str, Any]], more: str = "") -> Stream:
    """Every bid adds to some counts; so does every bidder and auction that is new, in all or of its rank."""
    schema = ", ".join(f"{name} STRING" for name, _ in keys)
    bids = select(
        t.bid, f"{schema}, rank BIGINT, bidder BIGINT, auction BIGINT",
        **dict(keys), rank=rank, bidder="bidder", auction="auction",
    )  # fmt: skip
    names = [name for name, _ in keys]
    parts = [("bids", True, bids)]
    for kind, column in (("bidders", "bidder"), ("auctions", "auction")):
        parts.append((kind, False, bids.deduplicate(*names, column, name=f"{kind}{more}")))
        parts.append(
            (kind, True, bids.deduplicate(*names, "rank", column, name=f"{kind}-of-rank{more}"))
        )
    counted = f"{schema}, " + ", ".join(f"{name} BIGINT" for name in NAMES)
    first, *others = (
        select(rows, counted, *names, **adds(kind, ranked)) for kind, ranked, rows in parts
    )
    return (
        first.union(*others)
        .key_by(*names)
        .aggregate({name: sum(name) for name in NAMES}, name=f"statistics{more}")
    )


def build(t: Tables) -> Stream:
    """By day."""
    return build_by(t, [("day", day)])


QUERY = Query(name="q15", sql=SQL, build=build, reads=("bid",), keys=("day",))
