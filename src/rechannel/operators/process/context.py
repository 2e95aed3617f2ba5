"""What a `process` function of one key is given beside its rows: states, timers, side outputs, the time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.operators.process.element_handles import ListHandle, MapHandle
from rechannel.operators.process.handles import Cursor, Made, ValueHandle
from rechannel.operators.process.states import ListState, MapState, ValueState
from rechannel.operators.process.stored import Held, Piece, entries_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Handles = dict[str, ValueHandle | ListHandle | MapHandle]


@dataclass(slots=True)
class Side:
    """Rows of a side output. own: what makes of a row one that the function cannot change any more."""

    own: Callable[[Any], Any]
    owners: list[int] = field(default_factory=list)
    """The position of each row's key."""
    rows: list[Any] = field(default_factory=list)

    def forget(self, key: int) -> None:
        """Take back the rows of the key that was called last."""
        while self.owners and self.owners[-1] == key:
            del self.owners[-1], self.rows[-1]


class Timer(NamedTuple):
    """A timer that went off. at: the time that it was set to."""

    name: str
    at: datetime


class Timers:
    """The timers of all keys of a call of `apply`, by position of the key: a time in microseconds by name."""

    def __init__(self, held: Held) -> None:
        self._held, self._names, self._times = held.timers()
        self._bounds = held.bounds(self._held) if held.layout.timers else []
        self._now: dict[int, dict[str, int]] = {}

    def of(self, key: int) -> dict[str, int]:
        """Return the timers of a key, to change them."""
        known = self._now.get(key)
        if known is None:
            some = slice(self._bounds[key], self._bounds[key + 1])
            known = self._now[key] = dict(zip(self._names[some], self._times[some], strict=True))
        return known

    def are_set(self, key: int) -> bool:
        """Whether a key has a timer."""
        known = self._now.get(key)
        return self._bounds[key] < self._bounds[key + 1] if known is None else bool(known)

    def forget(self, key: int) -> None:
        """Put the timers of a key back to what is stored."""
        self._now.pop(key, None)

    def pieces(self, made: Made) -> Iterator[Piece]:
        """Yield the rows of timers that were set, and ends of those that are there no more."""
        owners, names, times = list[int](), list[str](), list[int]()
        ended: list[int] = []
        for key, now in self._now.items():
            some = range(self._bounds[key], self._bounds[key + 1])
            before = {self._names[place]: place for place in some}
            ended += [place for name, place in before.items() if name not in now]
            for name, at in now.items():
                if name not in before or self._times[before[name]] != at:
                    owners.append(key)
                    names.append(name)
                    times.append(at)
        if owners:
            yield Piece(
                state=None,
                owners=np.array(owners, dtype=np.int64),
                entries=entries_of("", pa.array(names, pa.string())),
                untils=np.array(times, dtype=np.int64),
            )
        if ended:
            yield made.held.ending(None, self._held[ended])


class Context:
    """The states, timers and side outputs of the key that a function is called for.

    It is valid during the call. Names are those that were declared.
    """

    __slots__ = (
        "_clock",
        "_cursor",
        "_declared",
        "_handles",
        "_sides",
        "_tables",
        "_timers",
        "_values",
    )

    def __init__(
        self,
        clock: Clock,
        cursor: Cursor,
        handles: Handles,
        timers: Timers,
        declared: Mapping[str, str],
        sides: Mapping[str, Side],
        *,
        tables: Mapping[str, BroadcastTable],
    ) -> None:
        """declared: kind of time by timer. tables: of broadcast inputs."""
        self._clock, self._cursor, self._handles = clock, cursor, handles
        self._timers, self._declared, self._sides = timers, declared, sides
        self._tables = tables
        self._values: dict[str, ValueHandle] = {
            n: each for n, each in handles.items() if isinstance(each, ValueHandle)
        }

    def value(self, name: str) -> ValueHandle:
        """Return the key's value of a value state."""
        try:
            return self._values[name]
        except KeyError:
            pass
        refused: ValueHandle = self._refused(name, ValueState.kind)
        return refused

    def list(self, name: str) -> ListHandle:
        """Return the key's list of a list state."""
        handle = self._handles.get(name)
        return handle if type(handle) is ListHandle else self._refused(name, ListState.kind)

    def map(self, name: str) -> MapHandle:
        """Return the key's map of a map state."""
        handle = self._handles.get(name)
        return handle if type(handle) is MapHandle else self._refused(name, MapState.kind)

    def set_timer(self, name: str, at: datetime) -> None:
        """Have a timer of the key go off at a time; one of the same name that is set already is set to this time.

        A time without a zone is in UTC. A time that has passed is due at once.
        """
        self._known(name)
        moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        self._timers.of(self._cursor.key)[name] = (moment - EPOCH) // _MICROSECOND

    def clear_timer(self, name: str) -> None:
        """Take back a timer of the key, if it is set."""
        self._known(name)
        self._timers.of(self._cursor.key).pop(name, None)

    def timer(self, name: str) -> datetime | None:
        """Return the time that a timer of the key is set to; None if it is not set."""
        self._known(name)
        at = self._timers.of(self._cursor.key).get(name)
        return None if at is None else moment_of(at)

    def side_output(self, name: str, row: Any) -> None:
        """Put a row into a side output: as a tuple, as a dict, or as a value if one column is declared."""
        side = self._sides.get(name)
        if side is None:
            known = ", ".join(self._sides) or "none"
            msg = f"there is no side output {name!r} (declared: {known}); declare it with side_outputs="
            raise KeyError(msg)
        side.rows.append(side.own(row))
        side.owners.append(self._cursor.key)

    def broadcast(self, name: str) -> BroadcastTable:
        """Return the table of a broadcast input as of this timestep: a mapping from key to row, to be read only."""
        return table_named(name, self._tables)

    @property
    def watermark(self) -> datetime | None:
        """The watermark of this timestep; the last moment there is when no more rows come.

        None before any event time was seen, and where all timers go by processing time.
        """
        at = self._clock.watermark
        none = at == NEVER or set(self._declared.values()) == {"processing"}
        return None if none else moment_of(at)

    @property
    def processing_time(self) -> datetime:
        """The time of this timestep."""
        return moment_of(self._clock.stream_ms * 1_000)

    def _known(self, name: str) -> None:
        if name not in self._declared:
            known = ", ".join(self._declared) or "none"
            msg = f"there is no timer {name!r} (declared: {known}); declare it with timers="
            raise KeyError(msg)

    def _refused(self, name: str, kind: str) -> Any:
        found = self._handles.get(name)
        if found is None:
            known = ", ".join(self._handles) or "none"
            msg = f"there is no state {name!r} (declared: {known}); declare it with states="
            raise KeyError(msg)
        words = {ValueHandle: "value", ListHandle: "list", MapHandle: "map"}
        word = words[type(found)]
        msg = f"{name!r} is a {word} state, not a {kind} state; use context.{word}({name!r})"
        raise TypeError(msg)


def table_named(name: str, tables: Mapping[str, BroadcastTable]) -> BroadcastTable:
    """Return the table of a broadcast input. Raises KeyError."""
    table = tables.get(name)
    if table is None:
        known = ", ".join(tables) or "none"
        msg = (
            f"there is no broadcast input {name!r} (declared: {known}); declare it with broadcast="
        )
        raise KeyError(msg)
    return table


def moment_of(at: int) -> datetime:
    """Return a time in microseconds as a datetime; the first or last one there is for times beyond it."""
    try:
        return LAST if at == ENDED else EPOCH + timedelta(microseconds=at)
    except OverflowError:
        return FIRST if at < 0 else LAST


def handles_of(states: Mapping[str, Any], cursor: Cursor, held: Held, count: int) -> Handles:
    """Return a handle for each state. count: number of keys."""
    kinds: dict[str, Any] = {"value": ValueHandle, "list": ListHandle, "map": MapHandle}
    return {
        name: kinds[state.kind](name, state, cursor, held, count) for name, state in states.items()
    }


def pieces_of(
    handles: Handles, timers: Timers, made: Made, keys: Sequence[Any], chosen: Sequence[int]
) -> Iterator[Piece]:
    """Yield the rows of all that was written for some keys, and of all timers. Raises UserFunctionError."""
    yield from written_to(handles, made, keys, chosen)
    yield from timers.pieces(made)


def written_to(
    handles: Handles, made: Made, keys: Sequence[Any], chosen: Sequence[int]
) -> Iterator[Piece]:
    """Yield the rows of all that was written to states for some keys. Raises UserFunctionError.

    It costs as much as those keys, however many there are.
    """
    places = defaultdict[int, int](int)
    for handle in handles.values():
        if isinstance(handle, ListHandle):
            yield from handle.pieces(made, keys, chosen, places)
        else:
            yield from handle.pieces(made, keys, chosen)
