"""The states of one key, as a `process` function reads and writes them: a value, a list like a deque, a dict.

One object serves all keys of a call of `apply`: a cursor says which key it is about. Reading looks through what was
written to what is stored; what was written stays apart, by key, until pieces of rows are made of it. So a key that
fails is put back by forgetting what was written for it. Stored elements and entries of a key become Python values when
the function reads them, and not before: to append an element or to set an entry reads none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.functions.python_rows import (
    Label,
    check_tuples,
    column_of,
    columns_of,
    python_rows,
    python_values,
    row_type,
)
from rechannel.model.buffers import IntArray
from rechannel.operators.process.states import MapState, State, as_texts, from_texts
from rechannel.operators.process.stored import (
    Held,
    Piece,
    constant_entries,
    element_rows,
    entries_of,
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
    """How what was written becomes rows. names: of the keys, for messages. held: the rows that are stored."""

    timestep: int
    now_us: int
    held: Held
    whose: str

    def label(self, name: str, owners: Sequence[int], keys: Sequence[Any]) -> Label:
        """How messages name what was written: by its position among owners."""
        return lambda row: f"state {name!r}, as {self.whose} left it for key {keys[owners[row]]!r}"

    def untils(self, state: State, count: int) -> IntArray | None:
        """Until when rows that are written now count; None = they stay."""
        if state.ttl_ms is None:
            return None
        return np.full(count, self.now_us + state.ttl_ms * 1_000, dtype=np.int64)


class ValueHandle:
    """A value of the key: `get()`, `set(value)`, `clear()`."""

    __slots__ = ("_cursor", "_name", "_new", "_old", "_state")

    def __init__(self, name: str, state: State, cursor: Cursor, held: Held, count: int) -> None:
        self._name, self._state, self._cursor = name, state, cursor
        some, column = held.of(name)
        values = values_in(column, state)
        owners = held.stored.owners[some]
        if len(owners) == count:
            self._old = values
        else:
            self._old = [None] * count
            for owner, value in zip(owners.tolist(), values, strict=True):
                self._old[owner] = value
        self._new: list[Any] = [UNSET] * count

    def get(self, default: Any = None) -> Any:
        """Return the value, or the default: a scalar where the state has one column, else a NamedTuple."""
        at = self._cursor.key
        value = self._new[at]
        if value is UNSET:
            value = self._old[at]
            return default if value is None else value
        return default if value is GONE else as_read(value, self._state)

    def set(self, value: Any) -> None:
        """Replace the value: a scalar where the state has one column, else a tuple."""
        if value is None:
            msg = f"state {self._name!r} cannot be set to None; use clear()"
            raise ValueError(msg)
        self._new[self._cursor.key] = value

    def clear(self) -> None:
        """Remove the value."""
        self._new[self._cursor.key] = GONE

    def forget(self, key: int) -> None:
        """Forget what was written for a key."""
        self._new[key] = UNSET

    def pieces(self, made: Made, keys: Sequence[Any], chosen: Sequence[int]) -> Iterator[Piece]:
        """Yield the rows of what was written for some keys."""
        new, name = self._new, self._name
        values = [new[key] for key in chosen]
        owners, ended = list(chosen), list[int]()
        if UNSET in values or GONE in values:
            ended = [key for key in chosen if new[key] is GONE and self._old[key] is not None]
            owners = [key for key in chosen if new[key] is not UNSET and new[key] is not GONE]
            values = [new[key] for key in owners]
        if owners:
            yield Piece(
                state=name,
                owners=np.array(owners, dtype=np.int64),
                entries=constant_entries(name, len(owners)),
                untils=made.untils(self._state, len(owners)),
                values=stored_values(values, self._state, made.label(name, owners, keys)),
            )
        if ended:
            yield Piece(
                state=name,
                owners=np.array(ended, dtype=np.int64),
                entries=constant_entries(name, len(ended)),
                ends=True,
            )


@dataclass(slots=True)
class _Grown:
    """What was done to the list of one key. dropped: how many of the stored elements were removed, the first ones."""

    dropped: int = 0
    appended: list[Any] = field(default_factory=list)


class ListHandle(Sequence[Any]):
    """A list of the key: `append`, `extend`, `popleft`, `clear`; `len`, iteration and indices as for a list."""

    __slots__ = ("_bounds", "_column", "_cursor", "_grown", "_held", "_name", "_read", "_state")

    def __init__(self, name: str, state: State, cursor: Cursor, held: Held, count: int) -> None:
        del count
        self._name, self._state, self._cursor = name, state, cursor
        self._held, self._column = held.of(name)
        self._bounds = held.bounds(self._held)
        self._grown: dict[int, _Grown] = {}
        self._read: tuple[int, list[Any]] = (-1, [])

    def append(self, value: Any) -> None:
        """Add an element at the end: a scalar where the state has one column, else a tuple."""
        self._change().appended.append(self._fit(value))

    def extend(self, values: Iterable[Any]) -> None:
        """Add elements at the end."""
        self._change().appended.extend([self._fit(value) for value in values])

    def popleft(self) -> Any:
        """Remove the first element and return it. Raises IndexError if there is none."""
        if not len(self):
            msg = f"state {self._name!r} is empty"
            raise IndexError(msg)
        first, change = self[0], self._change()
        if change.dropped < self._stored:
            change.dropped += 1
        else:
            del change.appended[0]
        return first

    def clear(self) -> None:
        """Remove all elements."""
        change = self._change()
        change.dropped, change.appended = self._stored, []

    def __len__(self) -> int:
        change = self._grown.get(self._cursor.key)
        return (
            self._stored if change is None else self._stored - change.dropped + len(change.appended)
        )

    @overload
    def __getitem__(self, which: int) -> Any: ...

    @overload
    def __getitem__(self, which: slice) -> list[Any]: ...

    def __getitem__(self, which: int | slice) -> Any:
        return self._values()[which]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())

    def __repr__(self) -> str:
        return f"ListHandle({self._values()!r})"

    @property
    def _stored(self) -> int:
        """How many elements of the key are stored."""
        key = self._cursor.key
        return self._bounds[key + 1] - self._bounds[key]

    def _change(self) -> _Grown:
        key = self._cursor.key
        change = self._grown.get(key)
        if change is None:
            change = self._grown[key] = _Grown()
        return change

    def _values(self) -> list[Any]:
        key = self._cursor.key
        if self._read[0] != key:
            start = self._bounds[key]
            self._read = key, values_in(self._column.slice(start, self._stored), self._state)
        change = self._grown.get(key)
        stored = self._read[1]
        return stored if change is None else [*stored[change.dropped :], *change.appended]

    def _fit(self, value: Any) -> Any:
        if value is None:
            msg = f"state {self._name!r} cannot have None for an element"
            raise ValueError(msg)
        return as_read(value, self._state)

    def forget(self, key: int) -> None:
        """Forget what was done to the list of a key."""
        self._grown.pop(key, None)

    def pieces(
        self, made: Made, keys: Sequence[Any], chosen: Sequence[int], places: list[int]
    ) -> Iterator[Piece]:
        """Yield the rows of what was done for some keys. places: next free place of each key in this timestep."""
        owners: list[int] = []
        values: list[Any] = []
        numbers: list[int] = []
        ended: list[int] = []
        for key in chosen:
            change = self._grown.get(key)
            if change is None:
                continue
            start, count, place = self._bounds[key], len(change.appended), places[key]
            ended += range(start, start + change.dropped)
            owners += [key] * count
            values += change.appended
            numbers += range(place, place + count)
            places[key] = place + count
        if owners:
            yield Piece(
                state=self._name,
                owners=np.array(owners, dtype=np.int64),
                entries=constant_entries(self._name, len(owners)),
                rows=element_rows(made.timestep, np.array(numbers, dtype=np.int64)),
                untils=made.untils(self._state, len(owners)),
                values=stored_values(values, self._state, made.label(self._name, owners, keys)),
            )
        if ended:
            yield made.held.ending(self._name, self._held[ended])


class MapHandle(MutableMapping[Any, Any]):
    """A map of the key, as a dict. It is iterated in the order of its keys."""

    __slots__ = (
        "_bounds",
        "_column",
        "_cursor",
        "_entries",
        "_held",
        "_name",
        "_read",
        "_state",
        "_written",
    )

    def __init__(self, name: str, state: MapState, cursor: Cursor, held: Held, count: int) -> None:
        del count
        self._name, self._state, self._cursor = name, state, cursor
        self._held, self._column = held.of(name)
        self._bounds = held.bounds(self._held)
        self._entries = held.entries
        self._written: dict[int, dict[Any, Any]] = {}
        self._read: tuple[int, dict[Any, Any]] = (-1, {})

    def __getitem__(self, entry: Any) -> Any:
        value = self._written.get(self._cursor.key, {}).get(entry, UNSET)
        if value is UNSET:
            return self._stored()[entry]
        if value is GONE:
            raise KeyError(entry)
        return value

    def __setitem__(self, entry: Any, value: Any) -> None:
        if value is None or entry is None:
            msg = f"state {self._name!r} cannot have None for a key or a value; use del"
            raise ValueError(msg)
        self._change()[entry] = as_read(value, self._state)

    def __delitem__(self, entry: Any) -> None:
        if entry not in self:
            raise KeyError(entry)
        if entry in self._stored():
            self._change()[entry] = GONE
        else:
            del self._change()[entry]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())

    def clear(self) -> None:
        """Remove all entries."""
        self._written[self._cursor.key] = dict.fromkeys(self._stored(), GONE)

    def __repr__(self) -> str:
        return f"MapHandle({dict(self)!r})"

    def _change(self) -> dict[Any, Any]:
        return self._written.setdefault(self._cursor.key, {})

    def _present(self) -> list[Any]:
        """Keys of entries in their order."""
        written = self._written.get(self._cursor.key, {})
        there = {*self._stored(), *written}
        return sorted(entry for entry in there if written.get(entry) is not GONE)

    def _stored(self) -> dict[Any, Any]:
        """Return the stored entries of the key."""
        key = self._cursor.key
        if self._read[0] != key:
            start, stop = self._bounds[key], self._bounds[key + 1]
            texts = self._entries.take(pa.array(self._held[start:stop]))
            texts = pa.compute.utf8_slice_codeunits(texts, len(self._name) + 1, None)
            names = python_values(from_texts(texts, self._state.key_field.type))
            values = values_in(self._column.slice(start, stop - start), self._state)
            self._read = key, dict(zip(names, values, strict=True))
        return self._read[1]

    def forget(self, key: int) -> None:
        """Forget what was written for a key."""
        self._written.pop(key, None)

    def pieces(self, made: Made, keys: Sequence[Any], chosen: Sequence[int]) -> Iterator[Piece]:
        """Yield the rows of what was written for some keys."""
        written = [(k, e, v) for k in chosen for e, v in self._written.get(k, {}).items()]
        for ends in (False, True):
            some = [(key, entry, value) for key, entry, value in written if (value is GONE) is ends]
            if not some:
                continue
            owners = [key for key, _, _ in some]
            label = made.label(self._name, owners, keys)
            names = column_of([entry for _, entry, _ in some], self._state.key_field, label)
            values = None
            if not ends:
                values = stored_values([value for _, _, value in some], self._state, label)
            yield Piece(
                state=self._name,
                owners=np.array(owners, dtype=np.int64),
                entries=entries_of(self._name, as_texts(names)),
                untils=None if ends else made.untils(self._state, len(some)),
                values=values,
                ends=ends,
            )


def values_in(column: pa.Array, state: State) -> list[Any]:
    """Return what rows of a state hold as Python values: scalars, or NamedTuples for several columns."""
    columns: Columns = column.flatten()
    if len(state.columns) == 1:
        return python_values(columns[0], state.columns.names[0])
    return python_rows(columns, tuple(state.columns.names), len(column), "State")


def as_read(value: Any, state: State) -> Any:
    """Return a value that was written as it is read: a tuple of several columns is a NamedTuple."""
    names = tuple(state.columns.names)
    if len(names) == 1 or not isinstance(value, tuple | list) or len(value) != len(names):
        return value
    return row_type(names, "State")._make(value)


def stored_values(values: list[Any], state: State, what: Label) -> pa.Array:
    """Return values as the column of their state. Raises UserFunctionError."""
    fields = list(state.type.fields)
    if len(fields) == 1:
        columns = [column_of(values, fields[0], what)]
    else:
        check_tuples(values, fields, what)
        columns = columns_of(values, fields, what)
    return pa.StructArray.from_arrays(columns, fields=fields)
