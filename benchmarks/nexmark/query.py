"""What a query is: the dataflow, and the SQL that says the same of finished events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.dataflow.stream import Stream

NAMES = (
    *("q0", "q1", "q2", "q3", "q4", "q5", "q7", "q8", "q9", "q11"),
    *("q13", "q14", "q15", "q16", "q17", "q18", "q19", "q20", "q21", "q22"),
)


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
    """

    name: str
    sql: str
    build: Callable[[Tables], Stream]
    reads: tuple[str, ...]
    keys: tuple[str, ...] = ()
    stateful: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


def query(name: str) -> Query:
    """A query by its name."""
    found: Query = import_module(f"benchmarks.nexmark.queries.{name}").QUERY
    return found


@dataclass(frozen=True)
class Select:
    """Some columns of the rows, by name or computed. columns: name -> name, or function of the batch."""

    columns: Mapping[str, str | Callable[[pa.RecordBatch], pa.Array]]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns."""
        made = [batch[of] if isinstance(of, str) else of(batch) for of in self.columns.values()]
        return pa.RecordBatch.from_arrays(made, names=list(self.columns))


@dataclass(frozen=True)
class Where:
    """Rows for which a function of the batch says so."""

    holds: Callable[[pa.RecordBatch], pa.Array]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows."""
        return batch.filter(self.holds(batch))


def select(stream: Stream, schema: str, *names: str, **made: Any) -> Stream:
    """Columns of a stream. made: computed ones."""
    return stream.map_batches(Select({**dict(zip(names, names, strict=True)), **made}), schema)


def where(stream: Stream, holds: Callable[[pa.RecordBatch], pa.Array]) -> Stream:
    """Rows of a stream."""
    return stream.map_batches(Where(holds))


def mod(column: pa.Array, by: int) -> pa.Array:
    """Column % by, of numbers that are not negative."""
    return pc.subtract(column, pc.multiply(pc.divide(column, by), by))
