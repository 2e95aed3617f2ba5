"""An ingest log as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.model.ddl import schema_of
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.reader import SourceReader


@dataclass(frozen=True, eq=False, kw_only=True)
class IngestConnector(Connector):
    """Rows that producers have posted to `rechannel ingest`, each read once."""

    path: str
    """Directory, or URL of a bucket."""
    schema: pa.Schema | None = None
    """Columns, as Arrow or DDL; None for those of the log."""
    per_timestep: int | None = None
    """Most rows of a timestep; None for all that are there."""

    def __post_init__(self) -> None:
        """Read the columns and check the bound. Raises DataflowError."""
        if not self.path.strip():
            raise DataflowError("ingested: give the directory or URL of `rechannel ingest`")
        if self.schema is not None:
            object.__setattr__(self, "schema", schema_of(self.schema))
        if self.per_timestep is not None and self.per_timestep < 1:
            raise DataflowError(
                f"ingested: per_timestep (rows) must be at least 1, not {self.per_timestep}"
            )

    def describe(self) -> str:
        """Return the place."""
        return f"ingested {self.path}"

    def unbounded(self) -> IngestConnector:
        """Return the source with all rows in one timestep."""
        return replace(self, per_timestep=None)

    def open(self, context: SourceContext) -> SourceReader:
        """Open it. Raises SourceError if there is no log."""
        from rechannel.sources.ingest.reader import IngestReader
        from rechannel.state.stores.local import Durability
        from rechannel.state.stores.locations import check_settings, open_backing

        store = open_backing(self.path, Durability.POWER)
        check_settings(store)
        return IngestReader(self, store, name=context.name)
