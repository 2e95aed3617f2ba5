"""A table of Delta Lake as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from rechannel.errors import DataflowError, SetUpError
from rechannel.sinks.delta.columns import check_columns
from rechannel.sinks.keyed_changes import check_changes, check_keyed, without_changes
from rechannel.sinks.keyed_rows import check_keys
from rechannel.sinks.marked import MarkedWriter, mark_name
from rechannel.sinks.marks import Holder
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.writer import SinkWriter


@dataclass(frozen=True, eq=False, kw_only=True)
class DeltaOutlet(Outlet):
    """Rows of one table."""

    path: str
    """A directory, or a URL of an object store."""
    keys: tuple[str, ...] = ()
    """Columns by which a row takes the place of an earlier one; empty to append."""
    changes: str = ""
    """Column that says what becomes of a row's key, as in a changelog; empty if rows are no changes."""
    partitions: tuple[str, ...] = ()
    """Columns by which a table that does not exist is divided into directories."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the store, as `deltalake` reads them: region, endpoint, credentials."""
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check what can be checked without the table. Raises DataflowError."""
        if not self.path.strip():
            raise DataflowError("write.delta: give the path of the table")
        check_keyed("write.delta", self.changes, self.keys)

    @property
    def place(self) -> str:
        """The path, which identifies the table."""
        return f"delta {self.path.rstrip('/')}"

    @property
    def takes_newest(self) -> bool:
        """Whether rows are written by their keys, and are no changes."""
        return bool(self.keys) and not self.changes

    @property
    def guarantee(self) -> str:
        """Return "exactly once"."""
        return "exactly once"

    def describe(self) -> str:
        """Return path and keys."""
        how = f", by {', '.join(self.keys)}" if self.keys else ""
        told = f", changes in {self.changes}" if self.changes else ""
        return f"delta {self.path}{how}{told}"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it. The table is read when the driver owns the journal, not before."""
        try:
            import deltalake  # noqa: F401 - only whether it is there
        except ImportError as error:
            msg = "writing to Delta Lake needs deltalake: pip install 'rechannel[delta]'"
            raise SetUpError(msg) from error
        from rechannel.sinks.delta.place import DeltaPlace

        if context.schema is not None:
            check_keys(self.keys, context.schema, context.label)
            check_keys(self.partitions, context.schema, context.label)
            check_columns(context.schema, context.label)
            check_changes(self.changes, self.keys, context.schema, context.label)
        holder = Holder(
            where=f"table {self.path}",
            name=mark_name(context),
            elsewhere="another table",
            stays="rows of the table stay, and its own versions go back before them",
        )
        schema = without_changes(context.schema, self.changes)
        return MarkedWriter(DeltaPlace(self, holder, schema), holder, context)
