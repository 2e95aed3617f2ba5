"""Stored rows of state, read without the program that wrote them.

Segments hold whole rows (key columns, then state columns), and the newest run wins, so no code has
to run. What only the program knows is not applied: keys whose timeout has passed are shown until
merging drops them, and a query sees the values of built-in aggregates alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from rechannel.cli.inspect.directory import StateDirectory
from rechannel.dataflow.evolution.description import KeptAggregate
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.stored_columns import StoredColumns, stored_columns
from rechannel.engine.program.versions import current_record, operators_now
from rechannel.engine.view.state_view import manifest_at
from rechannel.errors import (
    DamagedStateError,
    MissingFileError,
    NotReadyError,
    UnknownOperatorError,
)
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.lsm.merge import Rows, merge_rows, slices_of
from rechannel.model.ddl import columns_text
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.operators.aggregate.written import finished
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run
from rechannel.state.segments.segment import open_segment

SLICE_ROWS = 100_000
"""Approximate rows of a slice: state is read in slices, and only as many as are needed."""

_ATTEMPTS = 5

_VALUES = frozenset({"count", "sum", "min", "max", "first", "last", "values"})

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Rows of one operator as of a timestep."""

    operator: str
    timestep: int

    keys: int
    """How many of the columns are keys."""

    rows: pa.Table
    """In the order of the hashes of their keys."""

    more: bool
    """Whether more rows follow."""

    aggregates: tuple[KeptAggregate, ...] = ()
    """What state columns are parts of, as far as it is known."""


def stored_rows(
    directory: StateDirectory, operator: str, timestep: int | None, limit: int | None
) -> StoredRows:
    """Read at most `limit` rows (None = all). timestep: None = the latest commit.

    The job may be running. Raises UnknownOperatorError, NotReadyError if the timestep is not kept,
    DamagedStateError.
    """
    return settled(directory, lambda state: _read(directory, operator, state, timestep, limit))


def settled(directory: StateDirectory, read: Callable[[JournalState], V]) -> V:
    """Read one version while the job may be running. Raises NotReadyError, DamagedStateError."""
    for attempt in range(_ATTEMPTS):
        state = read_only(directory.store)
        if state.last_committed is None:
            msg = f"job {directory.identity.name!r} has committed no timestep yet; try again later"
            raise NotReadyError(msg)
        try:
            return read(state)
        except MissingFileError:
            # A running job deletes files that its newer commits do not name; read the newest next.
            if attempt + 1 == _ATTEMPTS or read_only(directory.store).number == state.number:
                raise
    msg = "the state changes faster than it can be read; try again"
    raise NotReadyError(msg)


def operators_of(directory: StateDirectory, state: JournalState) -> Mapping[str, str]:
    """The stored columns of each operator, as of the present program."""
    return operators_now(state) or directory.identity.operators


def stored_tables(
    directory: StateDirectory, names: Sequence[str], state: JournalState, timestep: int | None
) -> dict[str, pa.Table]:
    """All rows of some operators, as of one version. Raises NotReadyError if one has no state yet.

    Built-in aggregates are finished. Of others, a stored column that is the value has the aggregate's name.
    """
    found = {}
    for name in names:
        stored = _read(directory, name, state, timestep, None)
        rows = _finished(stored)
        if not len(rows.schema):
            msg = (
                f"operator {name!r} has no state yet, so its columns are not known; try again later"
            )
            raise NotReadyError(msg)
        found[name] = rows.rename_columns(_values(rows.column_names))
    return found


def _finished(stored: StoredRows) -> pa.Table:
    """Return rows with the values of aggregates, under their names, in place of their parts."""
    rows = stored.rows
    for one in stored.aggregates:
        if one.digest or not {*one.columns} <= {*rows.column_names}:
            continue
        states = [rows[name].combine_chunks() for name in one.columns]
        values = finished(one.function, one.fields, states)
        if values is not None:
            place = rows.column_names.index(one.columns[0])
            rows = rows.drop_columns(list(one.columns)).add_column(place, one.name, values)
    return rows


def _values(names: Sequence[str]) -> list[str]:
    """Names of stored columns; the only part of an aggregate, if it is its value, has the aggregate's name."""
    parts = [name.rpartition(".") for name in names]
    whole = [before for before, _, last in parts if last in _VALUES]
    alone = {name for name in whole if sum(part[0] == name for part in parts) == 1}
    return [
        before if before in alone - set(names) else name
        for name, (before, _, _) in zip(names, parts, strict=True)
    ]


def _read(
    directory: StateDirectory,
    operator: str,
    state: JournalState,
    timestep: int | None,
    limit: int | None,
) -> StoredRows:
    operators = operators_of(directory, state)
    if operator not in operators:
        names = ", ".join(operators) or "none"
        msg = f"job {directory.identity.name!r} keeps no state for {operator!r}; it keeps state for: {names}"
        raise UnknownOperatorError(msg)
    manifest, _ = manifest_at(operator, state, timestep)
    columns = stored_columns(current_record(state), operator)
    if columns is None or not manifest.state:
        first = directory.identity.operators.get(operator, "")
        columns = _columns(directory, operator, (operators[operator], first), manifest)
    found: list[pa.RecordBatch] = []
    rows, more = 0, False
    for batch in _slices(directory, manifest, columns):
        found.append(batch if limit is None else batch.slice(0, limit - rows))
        rows += batch.num_rows
        if limit is not None and rows > limit:
            more = True
            break
    return StoredRows(
        operator=operator,
        timestep=(state.last_committed or 0) if timestep is None else timestep,
        keys=columns.keys,
        rows=pa.Table.from_batches(found, schema=columns.schema),
        more=more,
        aggregates=columns.aggregates,
    )


def _columns(
    directory: StateDirectory, operator: str, spelt: tuple[str, ...], manifest: Manifest
) -> StoredColumns:
    """Columns of the operator's segments, where the journal of an earlier release does not describe them.

    A segment does not say where keys end, but key and state columns are spelt out. spelt: in these words,
    now or at first.
    """
    if not manifest.state:
        return StoredColumns(schema=pa.schema([]), keys=0, ways={})
    first = manifest.state[0]
    segment = open_segment(directory.store, first.segment, first.digest, first.size)
    schema = segment.schema
    for keys in range(1, len(schema) + 1):
        key_columns, state_columns = pa.schema(list(schema)[:keys]), pa.schema(list(schema)[keys:])
        words = f" by {columns_text(key_columns)} keeping {columns_text(state_columns)}"
        if any(text.endswith(words) for text in spelt):
            return StoredColumns(schema=schema, keys=keys, ways={segment.meta.schema: ()})
    msg = (
        f"segment {manifest.state[0].segment} has the columns {columns_text(schema)}, but operator"
        f" {operator!r} is {spelt[0]}: they do not belong together; restore the state directory"
    )
    raise DamagedStateError(msg)


def _slices(
    directory: StateDirectory, manifest: Manifest, columns: StoredColumns
) -> Iterator[pa.RecordBatch]:
    expected = sum(run.expected for run in manifest.state)
    pieces = int(expected // SLICE_ROWS) + 1
    routing = Routing.even(bins=pieces, tasks=pieces)
    for number in range(pieces):
        rows = _merged(directory, manifest, routing.intervals_of(number), columns)
        if rows is not None:
            yield pa.RecordBatch.from_arrays(rows.columns, schema=columns.schema)


def _merged(
    directory: StateDirectory, manifest: Manifest, own: Intervals, columns: StoredColumns
) -> Rows | None:
    runs = [_opened(directory, run, columns) for run in manifest.within(own)]
    parts = [part for run in runs for part in slices_of(run, own)]
    return merge_rows(parts, columns.keys, _all_live, bottom=True) if parts else None


def _opened(directory: StateDirectory, run: Run, columns: StoredColumns) -> OpenRun:
    """Open a run. Raises NotReadyError if only the program can convert its rows."""
    segment = open_segment(directory.store, run.segment, run.digest, run.size)
    chain = columns.ways.get(segment.meta.schema)
    if chain is None:
        msg = (
            f"operator {segment.meta.operator!r} changed its state columns, and not all of its state is rewritten yet:"
            " only the running job can show it now, with job.state(...)"
        )
        raise NotReadyError(msg)
    return OpenRun(segment, run.clip, migrations=chain)


def _all_live(keys: list[pa.Array], state: list[pa.Array]) -> None:
    """Keep every row: only the program knows whether a timeout has passed or a window is closed."""
