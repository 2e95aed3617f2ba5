"""Writes to a table of Delta Lake, without Spark and without a JVM, through `deltalake`.

The mark is the table's own: versions of application transactions, which Delta commits with the rows. They are whole
numbers by name: the timestep, and the two halves of its digest. Of two commits that set the same ones at the same time,
Delta refuses one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from rechannel.errors import RefusedError, StorageError
from rechannel.sinks.delta.columns import check_fits
from rechannel.sinks.keyed_changes import Net, net, without_changes
from rechannel.sinks.keyed_rows import check_no_nulls, latest
from rechannel.sinks.marked import ConflictError
from rechannel.sinks.marks import Holder, Mark
from rechannel.sinks.noted import Noted
from rechannel.sinks.writer import Rows

if TYPE_CHECKING:
    from rechannel.sinks.delta.outlet import DeltaOutlet

T = TypeVar("T")
GONE = "_rc_gone"
"""Column of rows of a MERGE alone: whether their keys go."""
_HALF = 16
"""Hex digits of half a digest."""


class DeltaPlace:
    """One table."""

    def __init__(self, outlet: DeltaOutlet, holder: Holder, schema: pa.Schema | None) -> None:
        """Read nothing yet. schema: of the rows, as far as it is known before them."""
        import deltalake
        import deltalake.exceptions

        self._library, self._errors = deltalake, deltalake.exceptions
        self._outlet, self._holder, self._schema = outlet, holder, schema
        path = outlet.path
        self._url = path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - it may be a URL
        self._options = dict(outlet.options)
        self._table: Any = None
        self._rows: Noted | None = None
        """Of the timestep that is written."""

    def open(self) -> Mark | None:
        """Create the table if there is none. See `Place.open`."""
        return self._attempt(self._opened)

    def write(self, rows: Rows, mark: Mark, *, is_new: Callable[[Mark | None], bool]) -> None:
        """See `Place.write`."""
        self._attempt(lambda: self._write(rows, mark, is_new))

    def close(self) -> None:
        """Forget the table."""
        self._table = None

    def _opened(self) -> Mark | None:
        if self._schema is not None and not self._library.DeltaTable.is_deltatable(
            self._url, self._options
        ):
            self._library.DeltaTable.create(
                self._url,
                self._schema,
                mode="ignore",
                partition_by=list(self._outlet.partitions) or None,
                storage_options=self._options,
            )
        table = self._newest()
        if self._schema is not None:
            check_fits(self._schema, pa.schema(table.schema().to_arrow()), self._holder.where)
        return self._mark(table)

    def _newest(self) -> Any:
        if self._table is None:
            self._table = self._library.DeltaTable(self._url, storage_options=self._options)
        else:
            self._table.update_incremental()
        return self._table

    def _write(self, rows: Rows, mark: Mark, is_new: Callable[[Mark | None], bool]) -> None:
        table = self._newest()
        if not is_new(self._mark(table)):
            return
        # The library would cast: 2.7 to 2 in a column of whole numbers.
        written = without_changes(rows.schema, self._outlet.changes) or rows.schema
        check_fits(written, pa.schema(table.schema().to_arrow()), self._holder.where)
        if self._outlet.keys:
            self._merge(table, rows, mark)
        else:
            self._append(table, rows, mark)

    def _append(self, table: Any, rows: Rows, mark: Mark) -> None:
        batches = self._rows = Noted(rows.batches())
        first = next(batches, None)
        if first is None:
            return
        self._library.write_deltalake(
            table,
            pa.RecordBatchReader.from_batches(rows.schema, chain([first], batches)),
            mode="append",
            schema_mode="merge",
            commit_properties=self._commit(mark),
        )

    def _merge(self, table: Any, rows: Rows, mark: Mark) -> None:
        keys, given = self._outlet.keys, rows.table()
        if not given.num_rows:
            return
        check_no_nulls(given, keys, self._holder.where)
        changes = self._outlet.changes
        written = (
            net(given, keys, changes, self._holder.where)
            if changes
            else Net(present=latest(given, keys), gone=given.slice(0, 0))
        )
        deletes = bool(written.gone.num_rows)
        found = table.merge(
            _flagged(written) if deletes else written.present,
            " AND ".join(f"old.{_quoted(key)} = new.{_quoted(key)}" for key in keys),
            source_alias="new",
            target_alias="old",
            merge_schema=True,
            commit_properties=self._commit(mark),
        )
        if deletes:
            stays, goes = f"NOT new.{_quoted(GONE)}", f"new.{_quoted(GONE)}"
            found.when_matched_delete(goes)
            found.when_matched_update_all(stays, [GONE]).when_not_matched_insert_all(stays, [GONE])
        else:
            found.when_matched_update_all().when_not_matched_insert_all()
        found.execute()

    def _commit(self, mark: Mark) -> Any:
        versions = dict(zip(self._names(), (mark.timestep, *_numbers(mark.digest)), strict=True))
        transactions = [self._library.Transaction(name, to) for name, to in versions.items()]
        return self._library.CommitProperties(app_transactions=transactions)

    def _names(self) -> tuple[str, str, str]:
        name = self._holder.name
        return name, f"{name}/digest-1", f"{name}/digest-2"

    def _mark(self, table: Any) -> Mark | None:
        timestep, *halves = map(table.transaction_version, self._names())
        return None if timestep is None else Mark(timestep, _digest(*halves))

    def _attempt(self, work: Callable[[], T]) -> T:
        errors, where = self._errors, self._holder.where
        try:
            return work()
        except BaseException as error:
            self._table = None
            if self._rows is not None and self._rows.error is not None:
                raise self._rows.error  # noqa: B904 - the other one comes of it
            if isinstance(error, errors.CommitFailedError):
                raise ConflictError(f"{where} was changed by another writer first") from error
            if isinstance(error, errors.SchemaMismatchError | errors.DeltaProtocolError):
                raise RefusedError(f"{where} does not take the rows: {_said(error)}") from error
            if isinstance(error, errors.DeltaError | OSError):
                raise StorageError(f"{where} does not take the rows: {_said(error)}") from error
            raise
        finally:
            self._rows = None


def _flagged(written: Net) -> pa.Table:
    """Return the rows of a MERGE, each with whether its key goes."""
    parts = (written.present, False), (written.gone, True)
    flagged = [
        rows.append_column(pa.field(GONE, pa.bool_(), False), pa.repeat(gone, rows.num_rows))
        for rows, gone in parts
    ]
    return pa.concat_tables(flagged)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _said(error: BaseException) -> str:
    return str(error).partition("\n")[0]


def _numbers(digest: str) -> tuple[int, int]:
    """Return a digest of up to 32 hex digits as two signed numbers of 64 bits."""
    whole = digest.rjust(2 * _HALF, "0")
    one, two = (
        int.from_bytes(bytes.fromhex(half), signed=True) for half in (whole[:_HALF], whole[_HALF:])
    )
    return one, two


def _digest(one: int | None, two: int | None) -> str:
    """Return the digest that two numbers stand for; empty if there is none."""
    if not one and not two:
        return ""
    return "".join((half or 0).to_bytes(8, signed=True).hex() for half in (one, two))
