"""What a vectorised `process` function is given: all keys that it is called for, their rows, states and timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.operators.process.context import moment_of, table_named
from rechannel.operators.process.kept import Kept, KeptList, KeptMap
from rechannel.operators.process.processing import Processing
from rechannel.operators.process.track_frame import (
    KEY,
    AnyArray,
    FrameAnswer,
    RowsFrame,
    as_array,
    declared_column,
    read_answer,
    rows_of_answer,
)

Chosen: TypeAlias = npt.ArrayLike | pa.Array | None
"""Some keys of a frame: a mask, or their numbers; None = all of them."""

DUE = pa.schema([pa.field(KEY, pa.int64(), False), ("name", pa.string()), ("at", MICROS)])
"""Columns of timers that went off."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Kepts:
    """States and timers of all keys of a call of `apply`. timers: when each goes off; ENDED = it is not set."""

    states: Mapping[str, Kept]
    timers: Mapping[str, IntArray]


Rows = tuple[IntArray, Columns]
"""Positions of keys, and the columns of a row for each."""


@dataclass(kw_only=True)
class Working:
    """What there is while a function is called: states and timers, and rows of side outputs by name."""

    kepts: Kepts
    sides: dict[str, list[Rows]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessFrame(RowsFrame):
    """The keys of a task that received rows in a timestep, or whose timers went off.

    keys: key columns, one row per key.
    rows: value columns of all rows, sorted by key and, within a key, by stream order.
    starts, sizes: first row and number of rows of each key. Shape (keys,).
    ids: key number of each row. Shape (rows,).
    timers: those that went off, with the columns `_key`, `name` and `at`, by key and time.

    Tables that are read and written have a column `_key`, the number of a row's key, unless they have one row per key.
    """

    timers: pa.RecordBatch
    made_by: str
    """Name of the function, for messages."""
    logic: Processing
    clock: Clock
    tables: Mapping[str, BroadcastTable]
    """Of broadcast inputs, by name."""
    places: IntArray
    """Positions of the keys among those of the call of `apply`."""
    among: int
    """How many keys those are."""
    work: Working
    """What the function reads and changes."""

    def __repr__(self) -> str:
        names = ", ".join(self.rows.schema.names)
        return f"<ProcessFrame: {len(self)} keys, {self.rows.num_rows} rows of {names}>"

    # Reading ------------------------------------------------------------------------------------------------------

    def value(self, name: str) -> pa.RecordBatch:
        """Return the columns of a value state, row i for key i; null for keys without a value."""
        kept = self._kept(name, "value")
        column = kept.values
        if not np.array_equal(kept.owners, self.places):
            column = kept.values.take(kept.rows_of(self.places))
        return pa.RecordBatch.from_arrays(column.flatten(), schema=_nullable(kept.state.columns))

    def previous(self, name: str, column: str, default: Any = None) -> AnyArray:
        """Return a column of a value state, with the default where it is null. Shape (keys,)."""
        return as_array(self.value(name).column(column), default)

    def list(self, name: str) -> pa.RecordBatch:
        """Return the elements of a list state in their order: `_key`, and the columns of an element."""
        kept = self._kept(name, "list")
        numbers, some = self._numbered(kept.owners)
        return _table(numbers, [], kept.columns(some), kept.state.columns)

    def map(self, name: str) -> pa.RecordBatch:
        """Return the entries of a map state in the order of their keys: `_key`, the key of an entry, what it holds."""
        kept = self._kept(name, "map")
        assert isinstance(kept, KeptMap)  # noqa: S101 - as its kind says
        _, some = self._numbered(kept.owners)
        some, keys = kept.in_order(some)
        numbers = np.searchsorted(self.places, kept.owners[some])
        fields = pa.schema([kept.state.key_field, *kept.state.columns])
        return _table(numbers, [keys], kept.columns(some), fields)

    def timer(self, name: str) -> pa.Array:
        """Return the time that a timer of each key is set to; null where it is not set."""
        ats = self._timer(name)[self.places]
        return pa.array(np.where(ats == ENDED, 0, ats), pa.int64(), mask=ats == ENDED).cast(MICROS)

    def broadcast(self, name: str) -> pa.RecordBatch:
        """Return the table of a broadcast input as of this timestep: a row per key, in the order of keys."""
        return table_named(name, self.tables).rows

    @property
    def watermark(self) -> datetime | None:
        """The watermark of this timestep. See `Context.watermark`."""
        at = self.clock.watermark
        none = at == NEVER or set(self.logic.timers.values()) == {"processing"}
        return None if none else moment_of(at)

    @property
    def processing_time(self) -> datetime:
        """The time of this timestep."""
        return moment_of(self.clock.stream_ms * 1_000)

    # Writing ------------------------------------------------------------------------------------------------------

    def set_value(self, name: str, columns: FrameAnswer, keys: Chosen = None) -> None:
        """Set a value state of some keys. columns: its columns, one row for each of these keys."""
        kept = self._kept(name, "value")
        owners = self._chosen(keys)
        what = f"set_value({name!r}) in {self.made_by}"
        made, _ = read_answer(columns, kept.state.columns, len(owners), what)
        self._keep(name, kept.without(owners).with_rows(owners, _struct(made, kept)))

    def append(self, name: str, rows: FrameAnswer) -> None:
        """Append elements to a list state, in their order. rows: `_key`, and the columns of an element."""
        kept = self._kept(name, "list")
        owners, columns = self._rows(rows, kept.state.columns, f"append({name!r})")
        self._keep(name, kept.with_rows(owners, _struct(columns, kept)))

    def popleft(self, name: str, counts: npt.ArrayLike) -> None:
        """Remove elements from the beginning of a list state. counts: how many, one number per key."""
        kept = self._kept(name, "list")
        assert isinstance(kept, KeptList)  # noqa: S101 - as its kind says
        every = np.zeros(self.among, dtype=np.int64)
        every[self.places] = np.broadcast_to(np.asarray(counts, dtype=np.int64), len(self))
        self._keep(name, kept.without_first(every))

    def put(self, name: str, rows: FrameAnswer) -> None:
        """Set entries of a map state. rows: `_key`, the key of an entry, and what it holds; of equal ones the last."""
        kept = self._kept(name, "map")
        assert isinstance(kept, KeptMap)  # noqa: S101 - as its kind says
        fields = pa.schema([kept.state.key_field, *kept.state.columns])
        owners, (keys, *columns) = self._rows(rows, fields, f"put({name!r})")
        self._no_nulls(keys, f"put({name!r})")
        self._keep(name, kept.with_entries(owners, keys, _struct(columns, kept)))

    def remove(self, name: str, rows: FrameAnswer) -> None:
        """Remove entries of a map state, if they are there. rows: `_key` and the key of an entry."""
        kept = self._kept(name, "map")
        assert isinstance(kept, KeptMap)  # noqa: S101 - as its kind says
        owners, (keys,) = self._rows(rows, kept.state.key, f"remove({name!r})")
        self._no_nulls(keys, f"remove({name!r})")
        self._keep(name, kept.without_entries(owners, keys))

    def clear(self, name: str, keys: Chosen = None) -> None:
        """Remove all that a state has for some keys, whatever kind of state it is."""
        self._keep(name, self._kept(name).without(self._chosen(keys)))

    def set_timer(self, name: str, at: Any, keys: Chosen = None) -> None:
        """Set a timer of some keys. at: timestamps, one for each of these keys, or one for all; null = leave it."""
        ats, owners = self._timer(name).copy(), self._chosen(keys)
        what = f"set_timer({name!r}) in {self.made_by}"
        given = [at] * len(owners) if isinstance(at, datetime) else at
        column = declared_column(given, pa.field("at", MICROS), what)
        if len(column) != len(owners):
            msg = f"{what}: {len(column)} times for {len(owners)} keys"
            raise UserFunctionError(msg)
        times, nulls = micros(column)
        there = slice(None) if nulls is None else ~nulls
        ats[owners[there]] = times[there]
        self._set(name, ats)

    def clear_timer(self, name: str, keys: Chosen = None) -> None:
        """Take back a timer of some keys."""
        ats = self._timer(name).copy()
        ats[self._chosen(keys)] = ENDED
        self._set(name, ats)

    def side_output(self, name: str, rows: FrameAnswer) -> None:
        """Put rows into a side output. rows: `_key` and its columns; without `_key`, one row per key."""
        if name not in self.logic.sides:
            known = ", ".join(self.logic.sides) or "none"
            msg = f"there is no side output {name!r} (declared: {known}); declare it with side_outputs="
            raise KeyError(msg)
        made = self._rows(rows, self.logic.sides[name], f"side_output({name!r})")
        self.work.sides.setdefault(name, []).append(made)

    # ----------------------------------------------------------------------------------------------------------------

    def _kept(self, name: str, kind: str = "") -> Kept:
        kept = self.work.kepts.states.get(name)
        if kept is None:
            known = ", ".join(self.work.kepts.states) or "none"
            msg = f"there is no state {name!r} (declared: {known}); declare it with states="
            raise KeyError(msg)
        if kind and kept.state.kind != kind:
            msg = f"{name!r} is a {kept.state.kind} state, not a {kind} state"
            raise TypeError(msg)
        return kept

    def _keep(self, name: str, kept: Kept) -> None:
        now = self.work.kepts
        self.work.kepts = Kepts(states={**now.states, name: kept}, timers=now.timers)

    def _timer(self, name: str) -> IntArray:
        ats = self.work.kepts.timers.get(name)
        if ats is None:
            known = ", ".join(self.work.kepts.timers) or "none"
            msg = f"there is no timer {name!r} (declared: {known}); declare it with timers="
            raise KeyError(msg)
        return ats

    def _set(self, name: str, ats: IntArray) -> None:
        now = self.work.kepts
        self.work.kepts = Kepts(states=now.states, timers={**now.timers, name: ats})

    def _chosen(self, keys: Chosen) -> IntArray:
        """Return the positions of some keys."""
        if keys is None:
            return self.places
        if isinstance(keys, pa.Array):
            keys = keys.to_numpy(zero_copy_only=False)
        given = np.asarray(keys)
        numbers = np.flatnonzero(given) if given.dtype == np.bool_ else given.astype(np.int64)
        fits = len(given) == len(self) if given.dtype == np.bool_ else _are_some(numbers, len(self))
        if not fits:
            msg = (
                f"keys= in {self.made_by}: give a mask of {len(self)} keys, or numbers of keys from 0 to"
                f" {len(self) - 1}, each once"
            )
            raise UserFunctionError(msg)
        return self.places[numbers]

    def _numbered(self, owners: IntArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of keys of the rows that are of keys of the frame, and which rows these are."""
        at = np.minimum(np.searchsorted(self.places, owners), max(0, len(self.places) - 1))
        some = np.flatnonzero(self.places[at] == owners) if len(self.places) else at[:0]
        return at[some], some

    def _rows(self, rows: FrameAnswer, fields: pa.Schema, what: str) -> tuple[IntArray, Any]:
        """Return positions of keys and columns of rows that were handed over."""
        numbers, columns = rows_of_answer(rows, fields, len(self), f"{what} in {self.made_by}")
        return self.places[numbers], columns

    def _no_nulls(self, keys: pa.Array, what: str) -> None:
        if keys.null_count:
            msg = f"{what} in {self.made_by}: the key of an entry cannot be null"
            raise UserFunctionError(msg)


def _are_some(numbers: IntArray, count: int) -> bool:
    """Whether numbers are of keys, each once."""
    inside = not len(numbers) or (numbers.min() >= 0 and numbers.max() < count)
    return bool(inside) and len(np.unique(numbers)) == len(numbers)


def _struct(columns: Columns, kept: Kept) -> pa.Array:
    fields = list(kept.state.type.fields)
    return pa.StructArray.from_arrays(columns, fields=fields)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each.with_nullable(True) for each in schema])


def _table(numbers: IntArray, keys: Columns, columns: Columns, fields: pa.Schema) -> pa.RecordBatch:
    schema = pa.schema([DUE.field(0), *_nullable(fields)])
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, pa.int64()), *keys, *columns], schema=schema
    )
