"""Finished DataFrames as a source: one for a batch run, or one per micro-batch that somebody else hands over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.model.ddl import schema_of
from rechannel.sources.declared import as_declared
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader

PATIENCE = 60.0
"""Seconds that a replayed timestep waits for its batch to be handed over again."""


@dataclass
class Handover:
    """Batches by number, put by one thread and read by the driver's."""

    _batches: dict[int, Any] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def put(self, number: int, batch: Any) -> None:
        """Offer a batch (a DataFrame, or an Arrow table in process)."""
        with self._changed:
            self._batches[number] = batch
            self._changed.notify_all()

    def next_after(self, number: int) -> int | None:
        """The lowest number offered that is above the given one."""
        with self._changed:
            return min((n for n in self._batches if n > number), default=None)

    def get(self, number: int) -> Any:
        """A batch; waits for it. Raises SourceError when nobody hands it over."""
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._batches, PATIENCE):
                msg = (
                    f"batch {number} was begun before a crash and is not handed over again; "
                    "restart the query that feeds this job from its own checkpoint"
                )
                raise SourceError(msg)
            return self._batches[number]

    def forget(self, number: int) -> None:
        """Drop batches up to a number."""
        with self._changed:
            for n in [n for n in self._batches if n <= number]:
                del self._batches[n]


@dataclass(frozen=True, eq=False, kw_only=True)
class HandoverConnector:
    """Rows come as whole DataFrames with numbers. schema: their columns, as Arrow or DDL."""

    schema: pa.Schema
    handover: Handover = field(default_factory=Handover)

    def __post_init__(self) -> None:
        """Read the columns."""
        object.__setattr__(self, "schema", schema_of(self.schema))

    def describe(self) -> str:
        """One line."""
        return "batches handed over"


@dataclass(frozen=True)
class _Tables:
    """Reads Arrow tables in process."""

    tables: dict[int, pa.Table]
    schema: pa.Schema

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Rows of one batch."""
        for rows in self.tables[int(split["batch"])].to_batches():
            yield as_declared(rows, self.schema, "the table")


class HandoverReader:
    """Reads a `HandoverConnector`: one batch per timestep."""

    boundable = False

    def __init__(self, connector: HandoverConnector, *, in_process: bool) -> None:
        """Bind."""
        self._handover = connector.handover
        self.schema = connector.schema
        self.native = in_process

    def initial(self) -> Offset:
        """Before the first batch."""
        return {"batch": -1}

    def latest(self, start: Offset, now_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """One batch further, if there is one."""
        del now_ms, bound
        number = self._handover.next_after(int(start["batch"]))
        return start if number is None else {"batch": number}

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """The batch is one split."""
        del start
        return [{"order": 0, "batch": end["batch"]}]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Reads tables (in process)."""
        del start, layout
        number = int(end["batch"])
        return _Tables({number: self._handover.get(number)}, self.schema)

    def frame(self, spark: Any, start: Offset, end: Offset, layout: list[Split]) -> Any:
        """The DataFrame as it was handed over, with the columns in order."""
        if start == end or not layout:
            from rechannel.sources.spark import empty_frame

            return empty_frame(spark, self.schema)
        return self._handover.get(int(end["batch"])).select(*self.schema.names)

    def committed(self, end: Offset) -> None:
        """Forget what is committed."""
        self._handover.forget(int(end["batch"]))

    def close(self) -> None:
        """Nothing is held."""
