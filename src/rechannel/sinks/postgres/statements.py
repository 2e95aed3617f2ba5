"""Statements for PostgreSQL, and which columns of a table rows fit. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError
from rechannel.model.changelog import GONE, PRESENT

MARKS = "rechannel_marks"
"""The table of marks, one row per sink of a job and table."""
ARRIVED = "rechannel_arrived"
"""The temporary table that rows are copied into."""
ROW = "rechannel_row"
"""Its column with the order of the rows."""

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')

COLUMNS = """SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(a.atttypid, -1),
       a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""
"""Columns of a table: name, type, the same without length, whether only the database gives it values."""

UNIQUE = """SELECT i.indexrelid::bigint, a.attname
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid
  AND i.indpred IS NULL AND i.indexprs IS NULL
  AND array_position(i.indkey::int[], a.attnum::int) < i.indnkeyatts"""
"""Columns of its unique indexes: index, column. indkey counts from 0."""

KEEP = "LOCK TABLE {table} IN ROW EXCLUSIVE MODE"
"""Keeps the columns of a table as they are until the transaction ends; others may write meanwhile."""
SCHEMA = """SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)"""
"""The schema in which a table is found."""
IS_THERE = "SELECT to_regclass($1) IS NOT NULL"

MAKE_MARKS = """CREATE TABLE IF NOT EXISTS {marks} (writer text, target text,
    timestep bigint NOT NULL, digest text NOT NULL, PRIMARY KEY (writer, target))"""
HOLD = """INSERT INTO {marks} (writer, target, timestep, digest) VALUES ($1, $2, -1, '')
ON CONFLICT (writer, target) DO UPDATE SET writer = EXCLUDED.writer RETURNING timestep, digest"""
"""Locks the mark until the transaction ends, and returns it."""
FIND = "SELECT timestep, digest FROM {marks} WHERE writer = $1 AND target = $2"
SET = "UPDATE {marks} SET timestep = $3, digest = $4 WHERE writer = $1 AND target = $2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The name of a table, as the database writes it."""

    schema: str
    """Empty for what the search path of the connection finds."""
    name: str

    @property
    def quoted(self) -> str:
        """The name in statements."""
        return f"{quoted(self.schema)}.{quoted(self.name)}" if self.schema else quoted(self.name)

    def beside(self, name: str) -> str:
        """Return the quoted name of another table in the same schema."""
        return Table(schema=self.schema, name=name).quoted


def table_named(text: str) -> Table:
    """Return the table that a user names: `name`, `schema.name`, parts in double quotes as in SQL.

    Raises DataflowError.
    """
    parts, at = [], 0
    while at <= len(text):
        found = _PART.match(text, at)
        if found is None:
            break
        parts.append(found[1].replace('""', '"') if found[1] else found[2].strip().lower())
        at = found.end() + 1
        if found.end() == len(text) or text[found.end()] != ".":
            break
    if at != len(text) + 1 or not all(parts) or len(parts) not in (1, 2):
        raise DataflowError(f"{text!r} is no table: give its name, or schema.name")
    return Table(schema=parts[0] if len(parts) == 2 else "", name=parts[-1])


def quoted(name: str) -> str:
    """Return an identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def written(
    table: Table,
    columns: Mapping[str, str],
    keys: Sequence[str],
    updates: Sequence[str],
    changes: str = "",
) -> str:
    """Return the statement that brings rows from the temporary table to theirs.

    columns: names, and types in the table without their lengths: a cast to varchar(3) cuts a text silently, and an
    assignment refuses it. keys: empty to append; otherwise a row takes the place of the one with its
    keys. updates: columns that it replaces. changes: column that says what becomes of a key; empty = rows are no
    changes.
    """
    names = ", ".join(map(quoted, columns))
    values = ", ".join(f"{quoted(name)}::{kind}" for name, kind in columns.items())
    if not keys:
        return f"INSERT INTO {table.quoted} ({names}) SELECT {values} FROM {ARRIVED} ORDER BY {ROW}"
    by = ", ".join(map(quoted, keys))
    sets = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in updates)
    then = f"UPDATE SET {sets}" if sets else "NOTHING"
    which = f" WHERE {_among(quoted(changes), PRESENT)}" if changes else ""
    return (
        f"INSERT INTO {table.quoted} ({names}) SELECT DISTINCT ON ({by}) {values} FROM {ARRIVED}{which}"
        f" ORDER BY {by}, {ROW} DESC ON CONFLICT ({by}) DO {then}"
    )


def removed(table: Table, columns: Mapping[str, str], keys: Sequence[str], changes: str) -> str:
    """Return the statement that removes the rows of keys that no row in the temporary table writes.

    columns, keys, changes: as of `written`.
    """
    same = " AND ".join(f"old.{quoted(key)} = gone.{quoted(key)}::{columns[key]}" for key in keys)
    again = " AND ".join(f"kept.{quoted(key)} = gone.{quoted(key)}" for key in keys)
    kept = (
        f"SELECT FROM {ARRIVED} kept WHERE {again} AND {_among('kept.' + quoted(changes), PRESENT)}"
    )
    return (
        f"DELETE FROM {table.quoted} old USING {ARRIVED} gone WHERE {same}"
        f" AND {_among('gone.' + quoted(changes), GONE)} AND NOT EXISTS ({kept})"
    )


def _among(column: str, words: Sequence[str]) -> str:
    return f"{column} IN ({', '.join(repr(word) for word in words)})"


def check_columns(
    schema: pa.Schema,
    there: Sequence[tuple[str, str, str, bool]],
    unique: Sequence[Sequence[str]],
    keys: Sequence[str],
    table: Table,
) -> dict[str, tuple[str, str]]:
    """Return the types that the columns of rows have in the table, each with and without its length.

    there: columns of the table, as `COLUMNS` finds them. unique: columns of each of its unique indexes. Raises
    RefusedError with the statement that helps.
    """
    if not there:
        raise RefusedError(
            f"there is no table {table.quoted}: create it, for example with {created(schema, keys, table)}"
        )
    types = {name: (kind, bare) for name, kind, bare, given in there if not given}
    for field in schema:
        if field.name not in types:
            what = "column " + quoted(field.name)
            msg = (
                f"table {table.quoted} computes {what} itself: leave it out with drop(...)"
                if field.name in {name for name, *_ in there}
                else f"table {table.quoted} lacks {what}: ALTER TABLE {table.quoted} ADD COLUMN"
                f" {quoted(field.name)} {type_of(field.type, field.name)}; or leave it out with drop(...)"
            )
            raise RefusedError(msg)
    if keys and set(keys) not in [set(each) for each in unique]:
        by = ", ".join(map(quoted, keys))
        raise RefusedError(
            f"table {table.quoted} has no unique index on {by}, so that rows cannot replace others by it:"
            f" CREATE UNIQUE INDEX ON {table.quoted} ({by})"
        )
    return {name: types[name] for name in schema.names}


def fits_exactly(schema: pa.Schema, types: Mapping[str, str]) -> bool:
    """Return whether the columns of a table have the types under which the protocol sends those of rows.

    types: of the table's columns, as the database writes them.
    """
    return all(_written_out(type_of(each.type, each.name)) == types[each.name] for each in schema)


def _written_out(kind: str) -> str:
    """Return the type as `format_type` names it."""
    plain, array = kind.removesuffix("[]"), "[]" if kind.endswith("[]") else ""
    return _LONG.get(plain, plain).replace(", ", ",") + array


def created(schema: pa.Schema, keys: Sequence[str], table: Table) -> str:
    """Return the statement that creates a table for rows."""
    lines = [f"{quoted(field.name)} {type_of(field.type, field.name)}" for field in schema]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(quoted, keys))})")
    return f"CREATE TABLE {table.quoted} ({', '.join(lines)})"


_LONG = {"timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone"}
_TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "smallint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "real"),
    (pa.types.is_float64, "double precision"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_large_binary, "bytea"),
    (pa.types.is_date32, "date"),
)


def type_of(kind: pa.DataType, column: str) -> str:
    """Return the type of a column. Raises DataflowError if the database has none for it."""
    for holds, name in _TYPES:
        if holds(kind):
            return name
    if pa.types.is_decimal128(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type):
        return f"{type_of(kind.value_type, column)}[]"
    raise DataflowError(
        f"column {column!r} is {kind}, which PostgreSQL has no type for: make it a text, for example with to_json"
    )
