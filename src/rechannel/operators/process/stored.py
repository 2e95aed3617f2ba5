"""How the states and timers of `process` lie in state: one row for a value, an element, an entry or a timer.

The key columns of a row are the user's keys, `_entry` and `_row`. `_entry` says what the row is: the name of the state,
for an entry of a map followed by ":" and the key, for a timer ":" and its name. `_row` sorts the rows of a key: of an
element it is the timestep and the place at which it was appended, else a hash of `_entry`. So an element can be
appended, and an entry set, without a look at the others.

Each state has a column, which is null in rows of other states, so a state can be added and dropped as a column is.
Rows of a state that was dropped hold nothing any more and do not count, and neither do timers that are not declared.
`_until` says when a timer goes off; of a row with a time to live, until when it counts; it is null where a row stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import from_numpy, nested_order, take
from rechannel.kernels.protocol.logic import Changed, OperatorInput, StoredRows
from rechannel.kernels.protocol.two_sides import ROW
from rechannel.kernels.shuffle.watermarks import MICROS
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import ENDED, Clock
from rechannel.model.hashing import hash_columns
from rechannel.operators.process.states import State

ENTRY = pa.field("_entry", pa.string(), False)
UNTIL = pa.field("_until", pa.int64())
STATE = pa.field("_state", pa.string())
SHOWN_ENTRY = pa.field("_entry", pa.string())
SHOWN_UNTIL = pa.field("_until", MICROS)

PLACES, TIMESTEPS = 24, 37
HASH_BITS = PLACES + TIMESTEPS
"""Bits of a hash in `_row`, as many as an element's timestep and place take."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Piece:
    """Rows to write of one state, or of timers."""

    state: str | None
    """Its name; None for timers."""
    owners: IntArray
    """Positions of their keys."""
    entries: pa.Array
    """`_entry`."""
    rows: IntArray | None = None
    """`_row`; None = the hash of `_entry`."""
    untils: IntArray | None = None
    """`_until`; None = they stay."""
    values: pa.Array | None = None
    """What the state holds; None for timers, and for rows that end."""
    ends: bool = False
    """Whether the rows end."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of the stored rows of one operator."""

    keys: pa.Schema
    """The user's keys."""
    states: Mapping[str, State]
    timers: tuple[str, ...] = ()
    """Names of timers."""
    trailing: tuple[str, ...] = ()
    """Those of processing time, if others go by event time."""

    @cached_property
    def key_schema(self) -> pa.Schema:
        """Keys, and what tells the rows of a key apart."""
        return pa.schema([*self.keys, ENTRY, ROW])

    @cached_property
    def state_schema(self) -> pa.Schema:
        """Return when a row is due or ends, and a column for each state."""
        columns = [pa.field(name, state.type) for name, state in self.states.items()]
        return pa.schema([UNTIL, *columns])

    @cached_property
    def view_schema(self) -> pa.Schema:
        """Keys, the name of the state (null for timers), the key of an entry or name of a timer, columns of states."""
        shown = [STATE, SHOWN_ENTRY, SHOWN_UNTIL]
        return pa.schema([*self.keys, *shown, *list(self.state_schema)[1:]])

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return rows as they are shown."""
        entries = keys[len(self.keys)]
        place = pc.find_substring(entries, ":")
        alone = pc.equal(place, -1)
        names = pc.replace_substring_regex(entries, pattern="(?s):.*", replacement="")
        rest = pc.replace_substring_regex(entries, pattern="(?s)^[^:]*:", replacement="")
        columns = [
            *keys[: len(self.keys)],
            pc.if_else(pc.equal(names, ""), None, names),
            pc.if_else(alone, None, rest),
            state[0].cast(MICROS),
            *state[1:],
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.view_schema)

    # What rows wait for -------------------------------------------------------------------------------------------

    def are_timers(self, keys: Columns, names: Sequence[str] | None = None) -> Mask:
        """Return which rows are timers. names: which ones; None = all."""
        some = self.timers if names is None else names
        if not some:
            return np.zeros(len(keys[0]), dtype=np.bool_)
        names = pa.array([f":{name}" for name in some], pa.string())
        found: Mask = pc.is_in(keys[len(self.keys)], value_set=names).to_numpy(zero_copy_only=False)
        return found

    def timers_of(self, keys: Columns, state: Columns, names: Sequence[str]) -> IntArray:
        """Return when some timers go off; for all other rows the end of time."""
        return np.where(self.are_timers(keys, names), untils_of(state), ENDED)

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Return which rows count: timers that have not gone off, and what has not outlived its time; None = all."""
        alive = _holding(state[1:], len(state[0]))
        if state[0].null_count < len(state[0]):
            untils = untils_of(state)
            some = untils > clock.stream_ms * 1_000
            alive = some if alive is None else alive & some
            if self.timers:
                alive = np.where(self.are_timers(keys), untils > clock.watermark, alive)
            if self.trailing:
                trailing = self.are_timers(keys, self.trailing)
                alive = np.where(trailing, untils > clock.processing, alive)
        return alive

    # Rows to write ------------------------------------------------------------------------------------------------

    def changed(self, arrivals: OperatorInput, pieces: Sequence[Piece]) -> Changed:
        """Return the rows of all pieces in their order."""
        pieces = [piece for piece in pieces if len(piece.owners)]
        if not pieces:
            schema = pa.schema([*self.key_schema, *self.state_schema])
            nothing = [pa.array([], each.type) for each in schema]
            return Changed(hashes=arrivals.hashes[:0], columns=nothing)
        owners = np.concatenate([piece.owners for piece in pieces])
        rows = np.concatenate([_rows(piece) for piece in pieces])
        hashes = arrivals.hashes[owners]
        order = nested_order(hashes, rows)
        columns = [
            _chained([piece.entries for piece in pieces]),
            from_numpy(rows, ROW.type),
            _chained([_untils(piece) for piece in pieces]),
            *(self._column(name, pieces) for name in self.states),
        ]
        dropped = np.repeat([p.ends for p in pieces], [len(p.owners) for p in pieces])[order]
        return Changed(
            hashes=hashes[order],
            columns=[*take(arrivals.keys, owners[order]), *take(columns, order)],
            dropped=dropped if dropped.any() else None,
        )

    def _column(self, name: str, pieces: Sequence[Piece]) -> pa.Array:
        kind = self.states[name].type
        return _chained(
            [
                p.values
                if p.state == name and p.values is not None
                else pa.nulls(len(p.owners), kind)
                for p in pieces
            ]
        )


class Held:
    """The stored rows of the keys of one call of `apply`, by state."""

    def __init__(self, layout: Layout, stored: StoredRows, count: int) -> None:
        """count: number of keys."""
        self.layout, self.stored, self.count = layout, stored, count
        self._names = layout.state_schema.names

    @property
    def entries(self) -> pa.Array:
        """`_entry` of every row."""
        return self.stored.keys[len(self.layout.keys)]

    @property
    def rows(self) -> IntArray:
        """`_row` of every row."""
        numbers: IntArray = self.stored.keys[-1].to_numpy(zero_copy_only=False)
        return numbers

    def of(self, name: str) -> tuple[IntArray, pa.Array]:
        """Return the positions of the rows of a state, by key, and what they hold."""
        column = self.stored.state[self._names.index(name)]
        some = np.flatnonzero(_valid(column))
        return some, take([column], some)[0]

    def timers(self) -> tuple[IntArray, list[str], list[int]]:
        """Return the positions of timers, by key, their names, and when they go off."""
        state = self.stored.state
        if not self.layout.timers:
            return np.empty(0, dtype=np.int64), [], []
        some = np.flatnonzero(self.layout.are_timers(self.stored.keys))
        names = [text[1:] for text in take([self.entries], some)[0].to_pylist()]
        return some, names, untils_of(take(state, some)).tolist()

    def bounds(self, some: IntArray) -> list[int]:
        """Return where the rows of each key begin among some, and at last where they end."""
        owners = self.stored.owners[some]
        borders: list[int] = np.searchsorted(owners, np.arange(self.count + 1)).tolist()
        return borders

    def ending(self, state: str | None, some: IntArray) -> Piece:
        """Return a piece that ends some rows."""
        return Piece(
            state=state,
            owners=self.stored.owners[some],
            entries=take([self.entries], some)[0],
            rows=self.rows[some],
            ends=True,
        )


def element_rows(timestep: int, places: IntArray) -> IntArray:
    """Return `_row` of elements, given their places among those that a key appended in a timestep.

    Raises UserFunctionError if there are too many to number.
    """
    if timestep >> TIMESTEPS or (len(places) and int(places.max()) >> PLACES):
        msg = f"over {1 << PLACES:,} elements were appended for one key in timestep {timestep}: make timesteps smaller"
        raise UserFunctionError(msg)
    return (timestep << PLACES) | places


def constant_entries(text: str, count: int) -> pa.Array:
    """Return one `_entry` for a number of rows."""
    return pa.repeat(pa.scalar(text, pa.string()), count)


def constant_rows(text: str, count: int) -> IntArray:
    """Return `_row` of rows with one `_entry`."""
    return np.full(count, _row_of(text), dtype=np.int64)


@cache
def _row_of(text: str) -> int:
    return int(_hashed(constant_entries(text, 1))[0])


def entries_of(name: str, texts: pa.Array) -> pa.Array:
    """Return `_entry` of entries of a map, or of timers, whose name is empty."""
    return pc.binary_join_element_wise(constant_entries(name, len(texts)), texts, ":")


def untils_of(state: Columns) -> IntArray:
    """Return the first state column; ENDED for rows without a time."""
    untils: IntArray = state[0].fill_null(ENDED).to_numpy(zero_copy_only=False)
    return untils


def _rows(piece: Piece) -> IntArray:
    return _hashed(piece.entries) if piece.rows is None else piece.rows


def _hashed(entries: pa.Array) -> IntArray:
    hashes: IntArray = (hash_columns([entries]) >> np.uint64(64 - HASH_BITS)).astype(np.int64)
    return hashes


def _untils(piece: Piece) -> pa.Array:
    if piece.untils is None:
        return pa.nulls(len(piece.owners), UNTIL.type)
    return from_numpy(piece.untils, UNTIL.type)


def _chained(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _holding(columns: Columns, count: int) -> Mask | None:
    """Return which rows have a value in any column; None = all."""
    if any(column.null_count == 0 for column in columns):
        return None
    holds: Mask = np.zeros(count, dtype=np.bool_)
    for column in columns:
        holds |= _valid(column)
    return holds


def _valid(column: pa.Array) -> Mask:
    if column.null_count == 0:
        return np.ones(len(column), dtype=np.bool_)
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
