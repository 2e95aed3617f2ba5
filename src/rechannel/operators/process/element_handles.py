"""Lists and maps of one key in a `process` function: like a deque, and like a dict. See `handles`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from operator import index
from typing import Any, overload

import numpy as np
import pyarrow as pa

from rechannel.kernels.functions.python_rows import column_of, python_values
from rechannel.model.ddl import type_name
from rechannel.operators.process.handles import (
    GONE,
    UNSET,
    Cursor,
    Made,
)
from rechannel.operators.process.reading import Reading, stored_values, values_in
from rechannel.operators.process.states import MapState, State, as_texts, from_texts
from rechannel.operators.process.stored import (
    Held,
    Piece,
    constant_entries,
    element_rows,
    entries_of,
)


@dataclass(slots=True)
class _Grown:
    """What was done to the list of one key. dropped: how many of the stored elements were removed, the first ones."""

    dropped: int = 0
    appended: list[Any] = field(default_factory=list)
    taken: int = 0
    """How many of the appended elements were removed again, the first ones."""


class ListHandle(Sequence[Any]):
    """A list of the key: `append`, `extend`, `popleft`, `clear`; `len`, iteration and indices as for a list."""

    __slots__ = (
        "_bounds",
        "_column",
        "_copied",
        "_cursor",
        "_grown",
        "_held",
        "_name",
        "_read",
        "_reading",
        "_state",
    )

    def __init__(self, name: str, state: State, cursor: Cursor, held: Held, count: int) -> None:
        del count
        self._name, self._state, self._cursor = name, state, cursor
        self._held, self._column = held.of(name)
        self._bounds = held.bounds(self._held)
        self._reading = Reading(state)
        self._copied = self._reading.copied
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
            change.taken += 1
        return first

    def clear(self) -> None:
        """Remove all elements."""
        change = self._change()
        change.dropped, change.appended, change.taken = self._stored, [], 0

    def __len__(self) -> int:
        change, stored = self._grown.get(self._cursor.key), self._stored
        if change is None:
            return stored
        return stored - change.dropped + len(change.appended) - change.taken

    @overload
    def __getitem__(self, which: int) -> Any: ...

    @overload
    def __getitem__(self, which: slice) -> list[Any]: ...

    def __getitem__(self, which: int | slice) -> Any:
        if isinstance(which, slice):
            return self._values()[which]
        at, size = index(which), len(self)
        at += size if at < 0 else 0
        if not 0 <= at < size:
            msg = f"state {self._name!r} has {size} elements, and none at {which}"
            raise IndexError(msg)
        value = self._at(at)
        return value if self._copied is None else self._copied(value)

    def _at(self, at: int) -> Any:
        change = self._grown.get(self._cursor.key)
        if change is None:
            return self._stored_values()[at]
        left = self._stored - change.dropped
        if at < left:
            return self._stored_values()[change.dropped + at]
        return change.appended[change.taken + at - left]

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
        """Return the elements, for the function to do with as it likes."""
        change, values = self._grown.get(self._cursor.key), self._stored_values()
        if change is not None:
            values = [*values[change.dropped :], *change.appended[change.taken :]]
        return values if self._copied is None else [self._copied(each) for each in values]

    def _stored_values(self) -> list[Any]:
        key = self._cursor.key
        if self._read[0] != key:
            start = self._bounds[key]
            self._read = key, values_in(self._column.slice(start, self._stored), self._state)
        return self._read[1]

    def _fit(self, value: Any) -> Any:
        if value is None:
            msg = f"state {self._name!r} cannot have None for an element"
            raise ValueError(msg)
        return self._reading.read(value if self._copied is None else self._copied(value))

    def forget(self, key: int) -> None:
        """Forget what was done to the list of a key."""
        self._grown.pop(key, None)

    def pieces(
        self, made: Made, keys: Sequence[Any], chosen: Sequence[int], places: dict[int, int]
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
            added = change.appended[change.taken :]
            start, count, place = self._bounds[key], len(added), places[key]
            ended += range(start, start + change.dropped)
            owners += [key] * count
            values += added
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
        "_copied",
        "_counted",
        "_cursor",
        "_entries",
        "_fit",
        "_held",
        "_name",
        "_read",
        "_reading",
        "_state",
        "_written",
    )

    def __init__(self, name: str, state: MapState, cursor: Cursor, held: Held, count: int) -> None:
        del count
        self._name, self._state, self._cursor = name, state, cursor
        self._held, self._column = held.of(name)
        self._bounds = held.bounds(self._held)
        self._entries = held.entries
        self._fit = fitting(name, state.key_field)
        self._reading = Reading(state)
        self._copied = self._reading.copied
        self._written: dict[int, dict[Any, Any]] = {}
        self._read: tuple[int, dict[Any, Any]] = (-1, {})
        self._counted: tuple[int, int] = (-1, 0)
        """A key whose entries were counted, and how many it has."""

    def __getitem__(self, entry: Any) -> Any:
        entry = self._fit(entry)
        value = self._written.get(self._cursor.key, {}).get(entry, UNSET)
        if value is GONE:
            raise KeyError(entry)
        if value is UNSET:
            value = self._stored()[entry]
        return value if self._copied is None else self._copied(value)

    def __contains__(self, entry: object) -> bool:
        return self._has(self._fit(entry))

    def __setitem__(self, entry: Any, value: Any) -> None:
        if value is None or entry is None:
            msg = f"state {self._name!r} cannot have None for a key or a value; use del"
            raise ValueError(msg)
        entry, key = self._fit(entry), self._cursor.key
        value = self._reading.read(value if self._copied is None else self._copied(value))
        if self._counted[0] == key and not self._has(entry):
            self._counted = key, self._counted[1] + 1
        self._change()[entry] = value

    def __delitem__(self, entry: Any) -> None:
        entry, key = self._fit(entry), self._cursor.key
        if not self._has(entry):
            raise KeyError(entry)
        if self._counted[0] == key:
            self._counted = key, self._counted[1] - 1
        if entry in self._stored():
            self._change()[entry] = GONE
        else:
            del self._change()[entry]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._present())

    def __len__(self) -> int:
        key = self._cursor.key
        if self._counted[0] != key:
            stored = self._stored()
            size = len(stored)
            for entry, value in self._written.get(key, {}).items():
                size += (value is not GONE) - (entry in stored)
            self._counted = key, size
        return self._counted[1]

    def clear(self) -> None:
        """Remove all entries."""
        self._written[self._cursor.key] = dict.fromkeys(self._stored(), GONE)
        self._counted = -1, 0

    def __repr__(self) -> str:
        return f"MapHandle({dict(self)!r})"

    def _has(self, entry: Any) -> bool:
        """Whether there is an entry. entry: as it is read back."""
        value = self._written.get(self._cursor.key, {}).get(entry, UNSET)
        return entry in self._stored() if value is UNSET else value is not GONE

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
        self._counted = -1, 0

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


def fitting(name: str, field: pa.Field) -> Callable[[Any], Any]:
    """Return what makes of a key of an entry the value that is read back later. It raises TypeError for others."""
    kind, types = field.type, pa.types
    if types.is_timestamp(kind):
        zone = None if kind.tz is None else dt.UTC

        def instant(entry: Any) -> Any:
            if not isinstance(entry, dt.datetime):
                raise TypeError(_unfit(name, field, entry))
            if entry.tzinfo is None:
                return entry.replace(tzinfo=zone)
            if zone is None:
                raise TypeError(_unfit(name, field, entry))
            # Twice a year two instants of a zone are equal in Python.
            return entry.astimezone(dt.UTC)

        return instant
    wanted: type = bool
    if types.is_date(kind):
        wanted = dt.date
    elif types.is_string(kind):
        wanted = str
    elif types.is_integer(kind):
        wanted = Integral
    other = {dt.date: dt.datetime, Integral: bool}.get(wanted, ())

    def plain(entry: Any) -> Any:
        if not isinstance(entry, wanted) or isinstance(entry, other):
            raise TypeError(_unfit(name, field, entry))
        return entry

    return plain


def _unfit(name: str, field: pa.Field, entry: Any) -> str:
    return f"state {name!r}: the key of an entry is {type_name(field.type)}, and {entry!r} is of another type"
