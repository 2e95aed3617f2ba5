"""What a query is: the dataflow, and the SQL that says the same of finished events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.dataflow.streams.stream import Stream

NAMES = (
    *("q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11"),
    *("q12", "q13", "q14", "q15", "q16", "q17", "q18", "q19", "q20", "q21", "q22", "q23"),
)

VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "q1-ds2": ("q1", {"rate": 0.82}),
    "q5-ds2": ("q5", {"size": "60 minutes", "every": "1 minute"}),
    "q8-megaphone": ("q8", {"size": "12 hours"}),
}
"""Queries as papers ran them, where they differ from the public suite: those of DS2's repository, and q8 of Megaphone.

DS2's q11 also shows sessions after a number of events, for which there is no operator; its q2, q3 and q8 are those of
the suite. Megaphone lets event time run faster, 60 times in q5 and 79 times in q8: that is a lower `Events.rate`.
"""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The three streams, with their event time."""

    person: Stream
    auction: Stream
    bid: Stream


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query.

    sql: over the views person, auction and bid; ``{end}`` stands for how far event time has come, microseconds since
    1970: windows that are not complete by then are not shown. build: the same over streams. keys: where a result
    is corrected as events come, the columns of which the latest row counts; none = every row counts. reads: streams.
    partitions: columns that are directories where it is written to files. processing: it goes by the time at which
    events are read, which is the column `p_time` in SQL.
    """

    name: str
    sql: str
    build: Callable[[Tables], Stream]
    reads: tuple[str, ...]
    keys: tuple[str, ...] = ()
    stateful: bool = True
    partitions: tuple[str, ...] = ()
    processing: bool = False


def query(name: str, **options: Any) -> Query:
    """A query, or a variant, by its name. options: of its `make`, for those that have one."""
    of, own = VARIANTS.get(name, (name, {}))
    module = import_module(f"benchmarks.nexmark.queries.{of}")
    given = {**own, **options}
    found: Query = module.make(**given) if given else module.QUERY
    return replace(found, name=name)


def mod(column: pa.Array, by: int) -> pa.Array:
    """Column % by, of numbers that are not negative."""
    return pc.subtract(column, pc.multiply(pc.divide(column, by), by))
