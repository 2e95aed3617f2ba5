"""A table of Apache Iceberg as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from rechannel.errors import DataflowError, SetUpError
from rechannel.sinks.keyed_changes import check_changes, check_keyed, without_changes
from rechannel.sinks.keyed_rows import check_keys
from rechannel.sinks.marked import MarkedWriter, mark_name
from rechannel.sinks.marks import Holder
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.writer import SinkWriter


@dataclass(frozen=True, eq=False, kw_only=True)
class IcebergOutlet(Outlet):
    """Rows of one table."""

    table: str
    """namespace.name"""
    catalog: str = "default"
    """The name of the catalog in the configuration of PyIceberg, if it has one."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the catalog, as PyIceberg reads them: type, uri, warehouse."""
    keys: tuple[str, ...] = ()
    """Columns by which a row takes the place of an earlier one; empty to append."""
    changes: str = ""
    """Column that says what becomes of a row's key, as in a changelog; empty if rows are no changes."""
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check what can be checked without the catalog. Raises DataflowError."""
        parts = self.table.split(".")
        if len(parts) < 2 or not all(each.strip() for each in parts):
            raise DataflowError(f"write.iceberg: {self.table!r} is no table: give namespace.name")
        check_keyed("write.iceberg", self.changes, self.keys)

    @property
    def home(self) -> str:
        """The table."""
        return f"table {self.table}"

    @property
    def place(self) -> str:
        """Catalog and table."""
        where = urlsplit(self.options.get("uri", ""))  # which may hold a password
        address = f"{where.scheme}://{where.netloc.rpartition('@')[2]}{where.path}"
        return f"iceberg {address if self.options.get('uri') else self.catalog} {self.table}"

    @property
    def takes_newest(self) -> bool:
        """Whether rows are written by their keys, and are no changes."""
        return bool(self.keys) and not self.changes

    @property
    def guarantee(self) -> str:
        """Return "exactly once"."""
        return "exactly once"

    def describe(self) -> str:
        """Return table, catalog and keys."""
        how = f", by {', '.join(self.keys)}" if self.keys else ""
        told = f", changes in {self.changes}" if self.changes else ""
        return f"iceberg {self.table} of catalog {self.catalog}{how}{told}"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it. The catalog is asked when the driver owns the journal, not before."""
        try:
            import pyiceberg  # noqa: F401 - only whether it is there
        except ImportError as error:
            msg = "writing to Iceberg needs PyIceberg: pip install 'rechannel[iceberg]'"
            raise SetUpError(msg) from error
        from rechannel.sinks.iceberg.place import IcebergPlace

        if context.schema is not None:
            check_keys(self.keys, context.schema, context.label)
            check_changes(self.changes, self.keys, context.schema, context.label)
        holder = Holder(
            where=f"table {self.table!r} of catalog {self.catalog!r}",
            name=mark_name(context),
            elsewhere="another table",
            stays="rows of the table stay, and its own snapshots go back before them",
        )
        schema = without_changes(context.schema, self.changes)
        return MarkedWriter(IcebergPlace(self, holder, schema), holder, context)
