"""A table of PostgreSQL as a value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qsl, unquote, urlencode

from rechannel.errors import DataflowError, SetUpError
from rechannel.sinks.keyed_changes import check_changes, check_keyed
from rechannel.sinks.keyed_rows import check_keys
from rechannel.sinks.marked import MarkedWriter, mark_name
from rechannel.sinks.marks import Holder
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.postgres.statements import table_named, type_of
from rechannel.sinks.writer import SinkWriter

_SECRET = re.compile(r"^(\w+://[^:@/]*):([^@/]*)@")
_GIVEN = re.compile(r"(?<=password=)[^&\s]+")
KEEPALIVES = 3
"""Probes without an answer after which a connection is given up."""
_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, eq=False, kw_only=True)
class PostgresOutlet(Outlet):
    """Rows of one table."""

    url: str
    """As libpq reads it: postgresql://user@host:port/database?..."""
    table: str
    """Its name, or schema.name."""
    keys: tuple[str, ...] = ()
    """Columns by which a row takes the place of an earlier one; empty to append."""
    changes: str = ""
    """Column that says what becomes of a row's key, as in a changelog; empty if rows are no changes."""
    wait_s: float = 60.0
    """For how long a transaction waits for another one."""
    keeps_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check what can be checked without the database. Raises DataflowError."""
        if not self.url.startswith(_SCHEMES):
            raise DataflowError(
                "write.postgres: give the address as postgresql://user@host:port/database"
            )
        if not self.wait_s > 0:
            raise DataflowError(f"write.postgres: wait_s must be above 0, not {self.wait_s}")
        table_named(self.table)
        check_keyed("write.postgres", self.changes, self.keys)

    @property
    def shown(self) -> str:
        """The address without password."""
        return _SECRET.sub(r"\1:***@", self.url).partition("?")[0]

    @property
    def patient_url(self) -> str:
        """The address with time-outs of the client, where it has none: a server that is gone says nothing."""
        address, _, query = self.url.partition("?")
        seconds, given = max(2, round(self.wait_s)), dict(parse_qsl(query, keep_blank_values=True))
        bounds = {
            "connect_timeout": seconds,
            "tcp_user_timeout": 1_000 * seconds,
            "keepalives_idle": seconds,
            "keepalives_interval": max(1, seconds // KEEPALIVES),
            "keepalives_count": KEEPALIVES,
        }
        missing = {name: value for name, value in bounds.items() if name not in given}
        return f"{address}?{'&'.join(part for part in (query, urlencode(missing)) if part)}"

    def hidden(self, text: str) -> str:
        """Return a text, such as an error of the client, without the passwords of the address."""
        found = [each[2] for each in _SECRET.finditer(self.url)] + _GIVEN.findall(self.url)
        for secret in {*found, *map(unquote, found)} - {""}:
            text = text.replace(secret, "***")
        return text

    @property
    def home(self) -> str:
        """The table."""
        return f"table {self.table}"

    @property
    def place(self) -> str:
        """Address and table."""
        return f"postgres {self.shown} {self.table}"

    @property
    def takes_newest(self) -> bool:
        """Whether rows are written by their keys, and are no changes."""
        return bool(self.keys) and not self.changes

    @property
    def guarantee(self) -> str:
        """Return "exactly once"."""
        return "exactly once"

    def describe(self) -> str:
        """Return table, address and keys."""
        how = f", by {', '.join(self.keys)}" if self.keys else ""
        told = f", changes in {self.changes}" if self.changes else ""
        return f"postgres {self.table} at {self.shown}{how}{told}"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it. The database is asked when the driver owns the journal, not before."""
        try:
            import adbc_driver_postgresql.dbapi  # noqa: F401 - only whether it is there
        except ImportError as error:
            msg = "writing to PostgreSQL needs its ADBC driver: pip install 'rechannel[postgres]'"
            raise SetUpError(msg) from error
        from rechannel.sinks.postgres.place import PostgresTable

        if context.schema is not None:
            check_keys(self.keys, context.schema, context.label)
            check_changes(self.changes, self.keys, context.schema, context.label)
            for field in context.schema:
                type_of(field.type, field.name)
        holder = Holder(
            where=f"table {self.table!r} at {self.shown}",
            name=mark_name(context),
            elsewhere="another table",
            stays="rows of the table stay, but those with the same keys are replaced",
        )
        return MarkedWriter(PostgresTable(self, holder, context.schema), holder, context)
