"""Finished DataFrames as a source: one for a batch run, or one per micro-batch that a query passes
on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.model.ddl import schema_of
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.declared import as_declared
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader


def to_take(committed: Offset, number: int, query: str | None, accepted: str | None = None) -> bool:
    """Return whether a batch is to be read; False if it is already committed. Pure.

    A query numbers its batches without gaps and repeats at most the last one; its id is kept in
    its checkpoint. So any other number, and any other id, belongs to another checkpoint, whose
    rows may already be counted or may never have come.

    committed: the current offset; empty before the first. query: id of the query, None if unknown.
    accepted: id of a query that may continue in place of the previous one. Raises SourceError.
    """
    last, before = committed.get("batch", -1), committed.get("query")
    other = before is not None and query is not None and before != query
    if last < 0 or (other and query == accepted):
        return True
    if not other and number in {last, last + 1}:
        return bool(number > last)
    who = f"query {before}" if before else "the query that feeds this job"
    whence = f"query {query}, with another checkpoint" if other else "another checkpoint of it"
    instead = (
        "; or, if all of its rows are new, let it replace the previous query with"
        f" for_each_batch(..., query={query!r})"
        if other
        else ""
    )
    msg = (
        f"batch {number} comes from {whence}: {who} has passed on batches up to {last}. Its rows may already be"
        " counted, or some may be missing, so it is not read. Start the query with its previous checkpoint, or"
        f" give the job a state directory of its own{instead}"
    )
    raise SourceError(msg)


PATIENCE = 60.0
"""Seconds that a replayed timestep waits for its batch to be passed on again."""


@dataclass
class Handover:
    """Batches by number, put by one thread and read by the driver's."""

    _batches: dict[int, Any] = field(default_factory=dict)
    _queries: dict[int, str | None] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, number: int, batch: Any, query: str | None = None) -> None:
        """Offer a batch (a DataFrame, or an Arrow table in process). query: id of the query that
        sends it, if known.
        """
        with self._changed:
            self._batches[number] = batch
            self._queries[number] = query
            self._changed.notify_all()

    def next_after(self, at: Offset) -> Offset | None:
        """Return the lowest batch offered after an offset: a higher number, or one of another
        query.
        """
        with self._changed:
            later = (
                n
                for n, query in self._queries.items()
                if n > at["batch"] or (query or at.get("query")) != at.get("query")
            )
            number = min(later, default=None)
            if number is None:
                return None
            query = self._queries[number] or at.get("query")
            return {"batch": number, "query": query} if query else {"batch": number}

    def get(self, number: int, query: str | None = None) -> Any:
        """Wait for a batch and return it. Raises SourceError if it is not passed on.

        query: id of the query that sends it, if known; another one numbers its own.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_here(number, query), PATIENCE):
                msg = (
                    f"batch {number} was started before a crash and has not been passed on again:"
                    " restart the query that feeds this job from its own checkpoint"
                )
                raise SourceError(msg)
            return self._batches[number]

    def has(self, number: int, query: str | None = None) -> bool:
        """Return whether a batch is still here. query: as of `get`."""
        with self._changed:
            return self._is_here(number, query)

    def forget(self, number: int, query: str | None = None) -> None:
        """Drop batches up to a number. query: as of `get`."""
        with self._changed:
            for n in [n for n in self._batches if n <= number and self._is_here(n, query)]:
                del self._batches[n], self._queries[n]

    def _is_here(self, number: int, query: str | None) -> bool:
        if number not in self._batches:
            return False
        sender = self._queries[number]
        return sender is None or query is None or sender == query


@dataclass(frozen=True, eq=False, kw_only=True)
class HandoverConnector(Connector):
    """Rows that arrive as whole DataFrames with numbers."""

    schema: pa.Schema
    """Columns, as Arrow or DDL."""
    handover: Handover = field(default_factory=Handover, metadata={"running": True})

    def __post_init__(self) -> None:
        """Read the columns."""
        object.__setattr__(self, "schema", schema_of(self.schema))

    def describe(self) -> str:
        """Return one line for messages."""
        return "batches handed over"

    @property
    def endless(self) -> str | None:
        """A query passes batches on for as long as it runs."""
        return "is handed over by a query"

    def open(self, context: SourceContext) -> HandoverReader:
        """Open the reader."""
        return HandoverReader(self, in_process=context.spark is None)


@dataclass(frozen=True)
class _Tables:
    """Reads Arrow tables in process."""

    tables: dict[int, pa.Table]
    schema: pa.Schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one batch."""
        for rows in self.tables[int(split["batch"])].to_batches():
            yield as_declared(rows, self.schema, "the table")


class HandoverReader:
    """Reads a `HandoverConnector`: one batch per timestep."""

    repeats = False
    boundable = False
    complaint = None

    def __init__(self, connector: HandoverConnector, *, in_process: bool) -> None:
        """Use the batches of a connector."""
        self._handover = connector.handover
        self.schema = connector.schema
        self.native = in_process

    def initial(self) -> Offset:
        """Return the offset before the first batch."""
        return {"batch": -1}

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return the offset after the next batch, if there is one."""
        del stream_ms, bound
        return self._handover.next_after(start) or start

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return the batch as one split."""
        del start
        return [{"order": 0, "batch": end["batch"]}]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return the reader of tables (in process)."""
        del start, layout
        number = int(end["batch"])
        return _Tables({number: self._handover.get(number, end.get("query"))}, self.schema)

    def frame(self, spark: Any, start: Offset, end: Offset, layout: list[Split]) -> Any:
        """Return the DataFrame that was passed on, with the columns in order."""
        if start == end or not layout:
            from rechannel.sources.spark import empty_frame

            return empty_frame(spark, self.schema)
        batch = self._handover.get(int(end["batch"]), end.get("query"))
        return batch.select(*self.schema.names)

    def check_again(self, start: Offset, end: Offset, layout: list[Split]) -> None:
        """Raise SourceError if a batch was dropped."""
        if start != end and layout and not self._handover.has(int(end["batch"]), end.get("query")):
            msg = f"batch {end['batch']} was handed over by a query, and is dropped once it is committed"
            raise SourceError(msg)

    def committed(self, end: Offset) -> None:
        """Drop committed rows."""
        self._handover.forget(int(end["batch"]), end.get("query"))

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""
