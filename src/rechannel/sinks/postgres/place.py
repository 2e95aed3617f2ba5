"""Writes to a table of PostgreSQL through its ADBC driver, which copies Arrow batches by the binary COPY protocol.

A timestep is one transaction: it copies the rows to a temporary table, locks the mark of the sink, brings the rows to
their table with one statement, and sets the mark. Rows that replace none, of exactly the table's types, are copied to
the table itself. A second driver waits for the lock, and finds the mark. Nothing that the client sends is waited for
while the lock is held, so a driver that is cut off does not hold up its successor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from rechannel.errors import DataflowError, NotPermittedError, RefusedError, StorageError
from rechannel.sinks.keyed_changes import check_words, without_changes
from rechannel.sinks.keyed_rows import check_no_nulls
from rechannel.sinks.marked import UncertainError
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.noted import Noted
from rechannel.sinks.postgres import statements
from rechannel.sinks.writer import Rows

if TYPE_CHECKING:
    from rechannel.sinks.postgres.outlet import PostgresOutlet

T = TypeVar("T")
REFUSED = {
    "0A": "does not support that",
    "22": "does not take a value",
    "23": "does not take a row",
    "3D": "is not there",
    "42": "does not fit",
}
"""Classes of SQLSTATE that a repetition does not help, and what they say."""
PERMISSIONS = ("28", "42501")
LOST = "08006"
"""A connection that failed."""
SETTINGS = (
    "SET lock_timeout = {wait_ms}",
    # The way out for others if this host dies or is cut off while it holds the lock.
    "SET idle_in_transaction_session_timeout = {wait_ms}",
    "SET tcp_user_timeout = {wait_ms}",
    "SET application_name = 'rechannel'",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """How rows fit a table."""

    types: Mapping[str, str]
    """Of the table's columns, by name, without their lengths."""
    exact: bool
    """Whether rows can be copied to the table as they are sent."""


class _PublishedError(Exception):
    """The place has the timestep: the transaction is given up."""


class PostgresTable:
    """One table, and the mark of one sink in its schema."""

    def __init__(self, outlet: PostgresOutlet, holder: Holder, schema: pa.Schema | None) -> None:
        """Connect to nothing yet. schema: of the rows, as far as it is known before them."""
        import adbc_driver_manager.dbapi
        import adbc_driver_postgresql.dbapi

        self._driver, self._errors = adbc_driver_postgresql.dbapi, adbc_driver_manager.dbapi
        self._outlet, self._holder, self._schema = outlet, holder, schema
        self._table = statements.table_named(outlet.table)
        self._marks = self._table.beside(statements.MARKS)
        self._name = (holder.name, self._table.quoted)
        """Of the mark."""
        self._connection: Any = None
        self._rows: Noted | None = None
        """Of the timestep that is written."""

    def open(self) -> Mark | None:
        """See `Place.open`."""
        return self._attempt(self._opened)

    def write(self, rows: Rows, mark: Mark, *, is_new: Callable[[Mark | None], bool]) -> None:
        """See `Place.write`."""
        self._attempt(lambda: self._write(rows, mark, is_new))

    def close(self) -> None:
        """Close the connection, which ends an open transaction."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._errors.Error):
                connection.close()

    def _opened(self) -> Mark | None:
        with self._transaction() as cursor:
            if not self._ask(cursor, statements.IS_THERE, self._marks)[0][0]:
                cursor.execute(statements.MAKE_MARKS.format(marks=self._marks))
            if self._schema is not None:
                self._found_fit(cursor, self._schema)
            return self._found(cursor, statements.FIND)

    def _write(self, rows: Rows, mark: Mark, is_new: Callable[[Mark | None], bool]) -> None:
        with self._transaction() as cursor:
            if not is_new(self._found(cursor, statements.FIND)):
                return
        # Outside of a transaction, which the server ends if nothing comes: to compute the rows may take long.
        batches = self._rows = Noted(self._checked(rows.batches()))
        first = next(batches, None)
        with self._transaction() as cursor:
            if not self._outlet.keys:
                self._keep(cursor)
            fit = None if first is None else self._found_fit(cursor, rows.schema)
            if first is not None and fit is not None:
                self._send(cursor, first, batches, fit)
            if not is_new(self._found(cursor, statements.HOLD)):
                raise _PublishedError
            if fit is not None:
                self._arrange(cursor, fit)
            cursor.execute(statements.SET.format(marks=self._marks), (*self._name, *mark))

    def _send(
        self, cursor: Any, first: pa.RecordBatch, others: Iterator[pa.RecordBatch], fit: _Fit
    ) -> None:
        """Copy rows to their table where they fit exactly, and to a temporary one otherwise."""
        batches = chain([first], others)
        if fit.exact:
            reader = pa.RecordBatchReader.from_batches(first.schema, batches)
            # The driver's own default is the first schema of the search path, whichever has the table.
            schema = self._ask(cursor, statements.SCHEMA, self._table.quoted)[0][0]
            cursor.adbc_ingest(self._table.name, reader, mode="append", db_schema_name=schema)
            return
        numbered = _numbered(batches)
        schema_too = first.schema.append(pa.field(statements.ROW, pa.int64()))
        reader = pa.RecordBatchReader.from_batches(schema_too, numbered)
        cursor.adbc_ingest(statements.ARRIVED, reader, mode="create", temporary=True)

    def _arrange(self, cursor: Any, fit: _Fit) -> None:
        """Bring rows from the temporary table to theirs."""
        if fit.exact:
            return
        keys, changes = self._outlet.keys, self._outlet.changes
        updates = [name for name in fit.types if name not in keys]
        if changes:
            cursor.execute(statements.removed(self._table, fit.types, keys, changes))
        cursor.execute(statements.written(self._table, fit.types, keys, updates, changes))
        cursor.execute(f"DROP TABLE {statements.ARRIVED}")

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in batches:
            check_no_nulls(each, self._outlet.keys, self._holder.where)
            if changes := self._outlet.changes:
                check_words(each.column(changes), changes, self._holder.where)
            yield each

    def _keep(self, cursor: Any) -> None:
        """Keep the table's columns as they are until the transaction ends.

        The protocol of an exact copy sends bits: after a change from bigint to double precision they would be read as
        other numbers.
        """
        if self._ask(cursor, statements.IS_THERE, self._table.quoted)[0][0]:
            cursor.execute(statements.KEEP.format(table=self._table.quoted))

    def _found_fit(self, cursor: Any, schema: pa.Schema) -> _Fit:
        there = self._ask(cursor, statements.COLUMNS, self._table.quoted)
        indexes: dict[int, list[str]] = {}
        for index, column in self._ask(cursor, statements.UNIQUE, self._table.quoted):
            indexes.setdefault(index, []).append(column)
        keys = self._outlet.keys
        unique = [*indexes.values()]
        written = without_changes(schema, self._outlet.changes) or schema
        types = statements.check_columns(written, there, unique, keys, self._table)
        whole = {name: kind for name, (kind, _) in types.items()}
        # With a unique index, rows of a driver that is cut off would be in the way of its successor.
        exact = not keys and not unique and statements.fits_exactly(schema, whole)
        bare = {name: kind for name, (_, kind) in types.items()}
        return _Fit(types=bare, exact=exact)

    def _found(self, cursor: Any, statement: str) -> Mark | None:
        found = self._ask(cursor, statement.format(marks=self._marks), *self._name)
        return Mark(*found[0]) if found and found[0][0] >= 0 else None

    def _ask(self, cursor: Any, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        cursor.execute(statement, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Give a cursor in a transaction. An error leaves it to the end of the connection, which rolls it back."""
        if self._connection is None:
            self._connection = self._driver.connect(self._outlet.patient_url, autocommit=True)
            wait_ms = int(1e3 * self._outlet.wait_s)
            with self._connection.cursor() as cursor:
                for each in SETTINGS:
                    cursor.execute(each.format(wait_ms=wait_ms))
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")
            try:
                yield cursor
            except _PublishedError:
                cursor.execute("ROLLBACK")
            else:
                self._commit(cursor)

    def _commit(self, cursor: Any) -> None:
        try:
            cursor.execute("COMMIT")
        except self._errors.Error as error:
            if getattr(error, "sqlstate", None) in {None, "", LOST}:
                said = self._outlet.hidden(str(error).partition("\n")[0])
                raise UncertainError(
                    f"{self._holder.where} did not answer a COMMIT: {said}"
                ) from error
            raise

    def _attempt(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._errors.Error as error:
            self.close()
            if self._rows is not None and self._rows.error is not None:
                raise self._rows.error  # noqa: B904 - the other one comes of it
            raise self._meant(error) from error
        except BaseException:
            self.close()
            raise
        finally:
            self._rows = None

    def _meant(self, error: Any) -> Exception:
        state = getattr(error, "sqlstate", None) or ""
        said, where = self._outlet.hidden(str(error).partition("\n")[0]), self._holder.where
        if state.startswith(PERMISSIONS):
            return NotPermittedError(
                f"{where} may not be written: {said}. Grant it, and start again"
            )
        for kind, what in REFUSED.items():
            if state.startswith(kind):
                return RefusedError(f"{where} {what}: {said}")
        if isinstance(error, self._errors.NotSupportedError):
            return DataflowError(f"{where} does not take the rows: {said}")
        return StorageError(f"{where} does not take the rows: {said}")


def _numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches with a column for the order of their rows."""
    first = 0
    for each in batches:
        numbers = pa.array(np.arange(first, first + each.num_rows))
        yield each.append_column(statements.ROW, numbers)
        first += each.num_rows
