"""A trace: what workers did, and which messages they exchanged.

A *worker* is anything that does one thing at a time: a core of an executor, the driver, a thread.
An *activity* is what a worker did from one time to another. A *message* is sent by one worker and
received by another. Columns are numpy arrays of equal length. Times are nanoseconds since 1970;
kinds, workers and operators are indices into the lists of their names.

Names of kinds are free, except for `RESERVED`, which mean something to the algorithm. SnailTrail's
numbers of activity types map to the names in `SNAILTRAIL`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from rechannel.errors import TraceError

Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]

UNKNOWN, WAITING, CONTROL, DATA = "unknown", "waiting", "control message", "data message"
RESERVED = (UNKNOWN, WAITING, CONTROL, DATA)
"""Kinds that every trace has; they come before its own."""

SNAILTRAIL = {
    1: "input",
    2: "buffer",
    3: "scheduling",
    4: "processing",
    5: "barrier processing",
    6: "serialization",
    7: "deserialization",
    8: "fault tolerance",
    9: CONTROL,
    10: DATA,
    11: UNKNOWN,
    12: WAITING,
    13: "busy waiting",
}
"""Names of the activity types in SnailTrail's own records."""

MS, NS = 1_000_000, 1_000_000_000
"""A millisecond and a second, in nanoseconds."""
NONE = -1
"""Index of an unknown operator."""


C = TypeVar("C")


def rows_of(columns: C, rows: npt.NDArray[Any]) -> C:
    """The given rows of a dataclass whose fields are columns of equal length. rows: indices or a mask."""
    kept = {one.name: getattr(columns, one.name)[rows] for one in fields(cast("Any", columns))}
    made: C = type(columns)(**kept)
    return made


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Names:
    """The names that the indices of a trace stand for."""

    workers: Sequence[str]
    operators: Sequence[str] = ()
    kinds: Sequence[str] = RESERVED
    """Kinds of activities and messages; the first ones are `RESERVED`."""

    def __post_init__(self) -> None:
        """Check the kinds. Raises TraceError."""
        if tuple(self.kinds[: len(RESERVED)]) != RESERVED:
            msg = f"kinds of a trace begin with {', '.join(RESERVED)}, not {list(self.kinds)[:4]}"
            raise TraceError(msg)

    def kind(self, name: str) -> int:
        """Return the index of a kind. Raises TraceError if the trace has no such kind."""
        if name not in self.kinds:
            msg = f"the trace has no activity {name!r}; it has {', '.join(self.kinds)}"
            raise TraceError(msg)
        return list(self.kinds).index(name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activities:
    """What workers did. Every column has shape (activities,)."""

    worker: Indices
    kind: Indices
    operator: Indices
    """`NONE` if the activity belongs to no operator."""
    start: Times
    """Nanoseconds."""
    end: Times
    """Nanoseconds."""

    def __len__(self) -> int:
        return len(self.worker)

    @classmethod
    def lasting(
        cls, worker: Indices, kind: Indices, operator: Indices, start: Times, end: Times
    ) -> Activities:
        """Return the activities that take time."""
        every = cls(worker=worker, kind=kind, operator=operator, start=start, end=end)
        return rows_of(every, np.flatnonzero(end > start))

    @classmethod
    def joined(cls, *parts: Activities) -> Activities:
        """Concatenate several tables of activities."""
        names = ("worker", "kind", "operator", "start", "end")
        return cls(**{n: np.concatenate([getattr(part, n) for part in parts]) for n in names})

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int]]) -> Activities:
        """Build from rows (worker, kind, operator, start, end)."""
        columns = np.array(rows, dtype=np.int64).reshape(-1, 5)
        small = [columns[:, i].astype(np.int32) for i in range(3)]
        return cls(
            worker=small[0],
            kind=small[1],
            operator=small[2],
            start=columns[:, 3].copy(),
            end=columns[:, 4].copy(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Messages:
    """Messages between workers. Every column has shape (messages,)."""

    source: Indices
    """The worker that sent it."""
    target: Indices
    """The worker that received it."""
    kind: Indices
    operator: Indices
    sent: Times
    """Nanoseconds."""
    received: Times
    """Nanoseconds."""

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Times) -> Messages:
        """Return the given rows."""
        return rows_of(self, rows)

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int, int]]) -> Messages:
        """Build from rows (source, target, kind, operator, sent, received)."""
        columns = np.array(rows, dtype=np.int64).reshape(-1, 6)
        small = [columns[:, i].astype(np.int32) for i in range(4)]
        return cls(
            source=small[0],
            target=small[1],
            kind=small[2],
            operator=small[3],
            sent=columns[:, 4].copy(),
            received=columns[:, 5].copy(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """Activities and messages, in any order."""

    names: Names
    activities: Activities
    messages: Messages = field(default_factory=lambda: Messages.of([]))

    def __post_init__(self) -> None:
        """Check that every index has a name, and that nothing ends before it begins. Raises
        TraceError.
        """
        for name, places, known, least in self._numbered():
            if len(places) and (int(places.min()) < least or int(places.max()) >= known):
                msg = f"{name}: an index is not in 0 to {known - 1}"
                raise TraceError(msg)
        for what, first, last in (
            ("activity", self.activities.start, self.activities.end),
            ("message", self.messages.sent, self.messages.received),
        ):
            back = np.flatnonzero(last < first)
            if len(back):
                at = int(back[0])
                msg = (
                    f"{what} {at} ends {int(first[at] - last[at]):,} ns before it begins: leave it out, or correct"
                    " its times"
                )
                raise TraceError(msg)

    def _numbered(self) -> list[tuple[str, Indices, int, int]]:
        names, did, went = self.names, self.activities, self.messages
        return [
            ("worker of an activity", did.worker, len(names.workers), 0),
            ("kind of an activity", did.kind, len(names.kinds), 0),
            ("operator of an activity", did.operator, len(names.operators), NONE),
            ("source of a message", went.source, len(names.workers), 0),
            ("target of a message", went.target, len(names.workers), 0),
            ("kind of a message", went.kind, len(names.kinds), 0),
            ("operator of a message", went.operator, len(names.operators), NONE),
        ]

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last time, ns; (0, 0) if the trace is empty."""
        firsts = [
            column.min() for column in (self.activities.start, self.messages.sent) if len(column)
        ]
        lasts = [
            column.max() for column in (self.activities.end, self.messages.received) if len(column)
        ]
        return (int(min(firsts)), int(max(lasts))) if firsts else (0, 0)


def within(times: Times, spans: Times) -> npt.NDArray[np.bool_]:
    """Return which times lie in any of the spans, shape (spans, 2); the ends are exclusive."""
    real = spans[spans[:, 1] > spans[:, 0]]
    begun = np.searchsorted(np.sort(real[:, 0]), times, side="right")
    over = np.searchsorted(np.sort(real[:, 1]), times, side="right")
    found: npt.NDArray[np.bool_] = begun > over
    return found
