"""Writes to a table of Apache Iceberg, without Spark and without a JVM, through PyIceberg.

The mark is a property of the table, which Iceberg commits with the snapshot of the rows. A commit requires that no
other snapshot was added meanwhile. PyIceberg by itself repeats commits for which another one came first, and does not
look at the mark again: that is switched off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from rechannel.errors import DataflowError, RechannelError, RefusedError, StorageError
from rechannel.sinks.iceberg.columns import fitted
from rechannel.sinks.iceberg.upsert import upsert
from rechannel.sinks.keyed_changes import net
from rechannel.sinks.keyed_rows import check_no_nulls, latest
from rechannel.sinks.marked import ConflictError, UncertainError
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.writer import Rows

if TYPE_CHECKING:
    from rechannel.sinks.iceberg.outlet import IcebergOutlet

T = TypeVar("T")
RETRIES = "commit.retry.num-retries"
NEW = {
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Properties of a table that a sink creates: a commit per timestep makes many small files."""


class IcebergPlace:
    """One table."""

    def __init__(self, outlet: IcebergOutlet, holder: Holder, schema: pa.Schema | None) -> None:
        """Connect to nothing yet. schema: of the rows, as far as it is known before them."""
        import pyiceberg.catalog
        import pyiceberg.exceptions
        from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException

        self._load, self._errors = pyiceberg.catalog.load_catalog, pyiceberg.exceptions
        self._unsupported = UnsupportedPyArrowTypeException
        self._outlet, self._holder, self._schema = outlet, holder, schema
        self._catalog: Any = None

    def open(self) -> Mark | None:
        """Create the table if there is none. See `Place.open`."""
        return self._attempt(self._opened)

    def write(self, rows: Rows, mark: Mark, *, is_new: Callable[[Mark | None], bool]) -> None:
        """See `Place.write`."""
        self._attempt(lambda: self._write(rows, mark, is_new))

    def close(self) -> None:
        """Forget the catalog."""
        self._catalog = None

    def _opened(self) -> Mark | None:
        try:
            table = self._newest()
        except self._errors.NoSuchTableError:
            if self._schema is None:
                return None
            try:
                table = self._catalog.create_table_if_not_exists(
                    self._outlet.table, self._schema, properties=NEW
                )
            except self._unsupported as error:
                raise DataflowError(f"{self._holder.where}: {error}") from error
        if self._schema is not None:
            self._fitting(self._schema.empty_table(), table)
        return self._mark(table)

    def _newest(self) -> Any:
        if self._catalog is None:
            self._catalog = self._load(self._outlet.catalog, **self._outlet.options)
        return self._catalog.load_table(self._outlet.table)

    def _write(self, rows: Rows, mark: Mark, is_new: Callable[[Mark | None], bool]) -> None:
        from rechannel.sinks.iceberg.staged import Staged

        table, keys = self._newest(), self._outlet.keys
        if not is_new(self._mark(table)):
            return
        given = rows.table()
        if not given.num_rows:
            return
        gone = None
        if keys:
            check_no_nulls(given, keys, self._holder.where)
        if self._outlet.changes:
            written = net(given, keys, self._outlet.changes, self._holder.where)
            given, gone = written.present, self._fitting(written.gone, table)
        elif keys:
            given = latest(given, keys)
        given = self._fitting(given, table)
        table.metadata.properties[RETRIES] = "0"  # of this copy of the metadata alone
        with Staged(table) as transaction:
            if set(given.column_names) - set(table.schema().as_arrow().names):
                with transaction.update_schema() as change:
                    change.union_by_name(given.schema)
            if keys:
                upsert(transaction, table.io, given, keys, gone)
            else:
                transaction.append(given)
            transaction.set_properties({self._property: f"{mark.timestep}:{mark.digest}"})

    def _fitting(self, given: pa.Table, table: Any) -> pa.Table:
        """Return rows with the types of the table's columns. Raises RefusedError if they have others."""
        schema = fitted(given.schema, table.schema().as_arrow(), self._holder.where)
        try:
            return given.cast(schema)
        except ValueError as error:
            raise RefusedError(f"{self._holder.where} does not take the rows: {error}") from error

    @property
    def _property(self) -> str:
        return self._holder.name

    def _mark(self, table: Any) -> Mark | None:
        timestep, _, digest = table.properties.get(self._property, "").partition(":")
        return Mark(int(timestep), digest) if timestep else None

    def _attempt(self, work: Callable[[], T]) -> T:
        errors, where = self._errors, self._holder.where
        try:
            return work()
        except (RechannelError, AttributeError, NameError, TypeError):
            raise
        except errors.CommitFailedException as error:
            raise ConflictError(f"{where} was changed by another writer first") from error
        except errors.CommitStateUnknownException as error:
            self._catalog = None
            raise UncertainError(f"{where} may have the rows: {error}") from error
        except errors.NoSuchNamespaceError as error:
            raise RefusedError(f"{where}: its namespace does not exist; create it") from error
        except (errors.ValidationError, ValueError) as error:
            raise RefusedError(f"{where} does not take the rows: {error}") from error
        except Exception as error:
            self._catalog = None
            raise StorageError(f"{where} does not take the rows: {error}") from error
