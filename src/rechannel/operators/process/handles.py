"""The value of one key, as a `process` function reads and writes it, and what all handles of states share.

One object serves all keys of a call of `apply`: a cursor says which key it is about. Reading looks through what was
written to what is stored; what was written stays apart, by key, until pieces of rows are made of it. So a key that
fails is put back by forgetting what was written for it. Stored elements and entries of a key become Python values when
the function reads them, and not before: to append an element or to set an entry reads none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import is_not
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.kernels.functions.emitted import Emitted
from rechannel.kernels.functions.python_rows import Label
from rechannel.model.buffers import IntArray
from rechannel.operators.process.reading import Reading, stored_values, values_in
from rechannel.operators.process.states import State
from rechannel.operators.process.stored import (
    Held,
    Piece,
    constant_entries,
    constant_rows,
)

UNSET = object()
"""Nothing was written."""
GONE = object()
"""What was there has been removed."""


@dataclass(slots=True)
class Cursor:
    """Which key it is about: its position."""

    key: int = 0


@dataclass(frozen=True, kw_only=True)
class Made:
    """How what was written becomes rows."""

    timestep: int
    now_us: int
    held: Held
    """The rows that are stored."""
    whose: str
    """Name of the function, for messages."""
    emitted: Emitted = field(default_factory=Emitted)
    """What the function emitted."""

    def label(self, name: str, owners: Sequence[int] | IntArray, keys: Sequence[Any]) -> Label:
        """How messages name what was written: by its position among owners."""
        return lambda row: f"state {name!r}, as {self.whose} left it for key {keys[owners[row]]!r}"

    def stored(self, values: list[Any], state: State, what: Label) -> pa.Array:
        """Return values as the column of their state. Raises UserFunctionError."""
        fields = list(state.type.fields)
        known = self.emitted.known(values, fields) if len(fields) > 1 else None
        if known is not None:
            return pa.StructArray.from_arrays(known, fields=fields)
        return stored_values(values, state, what)

    def untils(self, state: State, count: int) -> IntArray | None:
        """Until when rows that are written now count; None = they stay."""
        if state.ttl_ms is None:
            return None
        return np.full(count, self.now_us + state.ttl_ms * 1_000, dtype=np.int64)


class ValueHandle:
    """A value of the key: `get()`, `set(value)`, `clear()`."""

    __slots__ = (
        "_again",
        "_cleared",
        "_copied",
        "_cursor",
        "_name",
        "_now",
        "_old",
        "_plain",
        "_reading",
        "_state",
    )

    def __init__(self, name: str, state: State, cursor: Cursor, held: Held, count: int) -> None:
        self._name, self._state, self._cursor = name, state, cursor
        some, column = held.of(name)
        values = values_in(column, state)
        owners = held.stored.owners[some]
        if not np.array_equal(owners, np.arange(count)):
            found, values = values, [None] * count
            for owner, value in zip(owners.tolist(), found, strict=True):
                values[owner] = value
        self._old: list[Any] = values
        """What is stored, by key; None = nothing."""
        self._now = list(values)
        """The same, or what was written for a key."""
        self._again = set[int]()
        """Keys for which the very object was written that is stored."""
        self._cleared = False
        """Whether the value of any key was removed."""
        self._reading = Reading(state)
        self._copied, self._plain = self._reading.copied, self._reading.plain

    def get(self, default: Any = None) -> Any:
        """Return the value, or the default: a scalar where the state has one column, else a NamedTuple."""
        at = self._cursor.key
        value = self._now[at]
        if value is None:
            return default
        if value is self._old[at]:
            return value if self._copied is None else self._copied(value)
        return value if type(value) is self._plain else self._reading.read(value)

    def set(self, value: Any) -> None:
        """Replace the value: a scalar where the state has one column, else a tuple."""
        if value is None:
            msg = f"state {self._name!r} cannot be set to None; use clear()"
            raise ValueError(msg)
        at = self._cursor.key
        if value is self._old[at]:
            self._again.add(at)
        self._now[at] = value if self._copied is None else self._copied(value)

    def clear(self) -> None:
        """Remove the value."""
        at = self._cursor.key
        self._cleared, self._now[at] = True, None
        self._again.discard(at)

    def forget(self, key: int) -> None:
        """Forget what was written for a key."""
        self._now[key] = self._old[key]
        self._again.discard(key)

    def pieces(self, made: Made, keys: Sequence[Any], chosen: Sequence[int]) -> Iterator[Piece]:
        """Yield the rows of what was written for some keys."""
        name, state, now, old = self._name, self._state, self._now, self._old
        places = np.array(chosen, dtype=np.int64)
        if len(chosen) < len(now):
            now, old = [now[key] for key in chosen], [old[key] for key in chosen]
        if not all(map(is_not, now, old)):
            changed = np.fromiter(map(is_not, now, old), np.bool_, len(now))
            if self._again:
                again = map(self._again.__contains__, chosen)
                changed |= np.fromiter(again, np.bool_, len(now))
            places, now = places[changed], list(compress(now, changed.tolist()))
        if self._cleared:
            there = np.fromiter(map(is_not, now, repeat(None)), np.bool_, len(now))
            yield self._piece(places[~there], ends=True)
            places, now = places[there], list(compress(now, there.tolist()))
        if now:
            values = made.stored(now, state, made.label(name, places, keys))
            yield self._piece(places, untils=made.untils(state, len(now)), values=values)

    def _piece(self, owners: IntArray, **how: Any) -> Piece:
        entries = constant_entries(self._name, len(owners))
        rows = constant_rows(self._name, len(owners))
        return Piece(state=self._name, owners=owners, entries=entries, rows=rows, **how)
