"""The sink seam: how the rows of a timestep leave, and what is promised when the driver dies.

A timestep's rows are *staged*: brought to where they need only be shown. The journal's commit names
what was staged, or, for a sink behind a stage, the outbox files that staging can start from again.
Behind the commit they are *published*: shown to readers. After a crash publishing is repeated, so
it has to end the same way however often it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
    """The finished rows of one timestep, for one sink.

    frame: as a Spark DataFrame; None without Spark. tables: as Arrow batches; each call computes
    them again. schema: their columns.
    """

    frame: DataFrame | None
    tables: Callable[[], Iterator[pa.RecordBatch]]
    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches with exactly the columns of `schema`; none is empty."""
        return (typed(batch, self.schema) for batch in self.tables() if batch.num_rows)

    def table(self) -> pa.Table:
        """All rows at once."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def head(self, count: int) -> pa.Table:
        """The first rows only, at most so many."""
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
        """Take note that the journal is this driver's from now on; called once, before anything is staged.

        What was refused when the writer was opened is looked at once more. Raises RefusedError, StorageError.
        """

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Bring the rows of a timestep to where publishing is cheap; no reader sees them yet.

        May be called again for the same batch, with the same rows, when the first attempt was
        never committed. Raises StorageError when the place refuses.
        """

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Show what was staged to readers; nothing happens if they see it already.

        Raises MissingFileError when it is gone, StorageError when the place refuses.
        """

    def close(self) -> None:
        """Free what the writer holds."""


def typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch under the planned columns; engines differ in time zones and nullability only.

    A timestep of another version of the program may have other columns: these go by their names.
    """
    if batch.schema.equals(schema):
        return batch
    batch = by_names(batch, schema)
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
