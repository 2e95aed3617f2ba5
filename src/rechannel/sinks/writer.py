"""The sink seam: how the rows of a timestep leave, and what is guaranteed if the driver dies.

A timestep's rows are *staged*: brought to where publishing is cheap. The journal's commit names
what was staged or, for a sink after a stage, the sink buffers from which staging can start again.
After the commit, the rows are *published*: made visible to readers. After a crash publishing is
repeated, so its result must be the same however often it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rechannel.model.named import by_names
from rechannel.sinks.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Staged = dict[str, Any]
"""What a publication needs to know. JSON: the journal keeps it."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The finished rows of one timestep, for one sink."""

    planned: Callable[[], DataFrame] | None = None
    """Makes the rows as a Spark DataFrame; None without Spark."""
    tables: Callable[[], Iterator[pa.RecordBatch]]
    """Returns the rows as Arrow batches; each call computes them again."""
    schema: pa.Schema
    """Columns."""

    @cached_property
    def frame(self) -> DataFrame | None:
        """The rows as a Spark DataFrame; None without Spark. It is made when a sink asks for it: planning takes
        time, and most sinks take Arrow batches.
        """
        return None if self.planned is None else self.planned()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the rows as Arrow batches with exactly the columns of `schema`; none is empty."""
        return (typed(batch, self.schema) for batch in self.tables() if batch.num_rows)

    def table(self) -> pa.Table:
        """Return all rows at once."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def head(self, count: int) -> pa.Table:
        """Return the first `count` rows, or fewer."""
        if self.frame is not None:
            first = self.frame.limit(count).toArrow().to_batches()
            return pa.Table.from_batches([typed(b, self.schema) for b in first], self.schema)
        held, rows = [], 0
        for batch in self.batches():
            held.append(batch.slice(0, count - rows))
            rows += held[-1].num_rows
            if rows >= count:
                break
        return pa.Table.from_batches(held, self.schema)


class SinkWriter(Protocol):
    """Writes the timesteps of one sink. `stage` and `publish` may be called from two threads."""

    @property
    def durable(self) -> bool:
        """Whether the journal keeps track of what is staged and published."""

    def begin(self) -> None:
        """Note that this driver now owns the journal; called once, before anything is staged.

        The checks of opening the writer are repeated. Raises RefusedError, StorageError.
        """

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Bring the rows of a timestep to where publishing is cheap; no reader sees them yet.

        May be called again for the same batch, with the same rows, if the first attempt was never
        committed. Raises StorageError if the place fails.
        """

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Make staged rows visible to readers; nothing happens if they already are.

        Raises MissingFileError if they are gone, StorageError if the place fails.
        """

    def close(self) -> None:
        """Free the writer's resources."""


class UnsharedWriter:
    """A part of `SinkWriter`, for what no other driver writes to and what holds no resources."""

    def begin(self) -> None:
        """Do nothing: other drivers do not matter here."""

    def close(self) -> None:
        """Do nothing: the writer holds no resources."""


def typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the planned columns; engines differ in time zones and nullability only.

    A timestep of another version of the program may have other columns, which are matched by name.
    """
    if batch.schema.equals(schema):
        return batch
    batch = by_names(batch, schema)
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
