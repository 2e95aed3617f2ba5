"""Changes of a table (`model.changelog`) that a place with one row per key takes: what to write, and what to remove.

All changes of a timestep count at once, whatever their order: a key has the row that an `insert` or an `update_after`
brings; a key that has only a `delete` or an `update_before` has none any more. So no old row stays if a row gets
another key, and a filter between a changelog and its sink may drop either row of an update. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError, RefusedError
from rechannel.model.changelog import KINDS, PRESENT
from rechannel.sinks.keyed_rows import latest, without


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """What a timestep changes in a place with one row per key. Both tables lack the column of changes."""

    present: pa.Table
    """Rows to write, one per key."""
    gone: pa.Table
    """The last rows of keys to remove, one per key."""


def net(rows: pa.Table, keys: Sequence[str], changes: str, where: str) -> Net:
    """Return what changes do to a place. changes: their column. Raises RefusedError for a word that is no change."""
    check_words(rows.column(changes), changes, where)
    present = pc.is_in(rows.column(changes), pa.array(PRESENT))
    rows_only = rows.drop_columns([changes])
    written = latest(rows_only.filter(present), keys)
    removed = latest(rows_only.filter(pc.invert(present)), keys)
    return Net(present=written, gone=without(removed, written, keys))


def check_words(words: pa.Array | pa.ChunkedArray, changes: str, where: str) -> None:
    """Raise RefusedError for a word that is no change."""
    known = pc.is_in(words, pa.array(KINDS))
    if not pc.all(known).as_py() and len(words):
        word = pc.filter(words, pc.invert(known))[0].as_py()
        raise RefusedError(
            f"{where} takes changes, and column {changes!r} of a row is {word!r}: it has to be one of"
            f" {', '.join(KINDS)}"
        )


def check_changes(changes: str, keys: Sequence[str], schema: pa.Schema, sink: str) -> None:
    """Raise DataflowError if rows have no such column of changes. changes: empty = rows are no changes."""
    if not changes:
        return
    if changes not in schema.names or changes in keys:
        what = "a key" if changes in keys else "no column of the rows"
        there = ", ".join(schema.names)
        msg = f"sink {sink!r}: changes={changes!r} is {what}; it names the column of a changelog, of {there}"
        raise DataflowError(msg)
    kind = schema.field(changes).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        msg = f"sink {sink!r}: column {changes!r} is {kind}, and a changelog's is a string"
        raise DataflowError(msg)


def check_keyed(what: str, changes: str, keys: Sequence[str], argument: str = "keys") -> None:
    """Raise DataflowError for changes of rows that have no keys. what: the method that the user called."""
    if changes and not any(keys):
        msg = (
            f"{what}: changes={changes!r} writes and removes rows by their keys: name these with {argument}=, or leave"
            " changes= out to append all changes"
        )
        raise DataflowError(msg)


def without_changes(schema: pa.Schema | None, changes: str) -> pa.Schema | None:
    """Return the columns that a place has of rows."""
    if schema is None or changes not in schema.names:
        return schema
    return schema.remove(schema.get_field_index(changes))
