"""A table in the driver's memory, readable while the job runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, Staged, UnsharedWriter


@dataclass
class MemoryWriter(UnsharedWriter):
    """Keeps every published timestep of this process.

    Publishing a timestep again adds no rows. Rows are lost when the process ends.
    """

    table_name: str
    """The name by which users query the table."""
    schema: pa.Schema | None = None
    durable: bool = False
    _staged: dict[int, pa.Table] = field(default_factory=dict)
    _published: dict[int, pa.Table] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Hold the rows."""
        table = rows.table()
        with self._lock:
            self.schema = rows.schema
            self._staged[batch.timestep] = table
        return {"rows": table.num_rows}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Publish what is held; a timestep held by an earlier process is gone with it."""
        del staged
        with self._lock:
            table = self._staged.pop(batch.timestep, None)
            if table is not None and table.num_rows:
                self._published[batch.timestep] = table

    def timesteps(self) -> list[tuple[int, pa.Table]]:
        """Return number and rows of every published timestep that has rows, in order."""
        with self._lock:
            return sorted(self._published.items())

    def last(self, count: int) -> list[tuple[int, pa.Table]]:
        """Return the latest of them, oldest first."""
        return self.timesteps()[-count:] if count > 0 else []

    def table(self) -> pa.Table:
        """Return all rows ordered by timestep; without columns before the first timestep.

        Columns that were added or dropped while the job ran are null where a timestep lacks them.
        """
        tables = [table for _, table in self.timesteps()]
        if tables:
            return pa.concat_tables(tables, promote_options="permissive")
        return (self.schema or pa.schema([])).empty_table()
