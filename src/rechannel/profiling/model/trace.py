"""A trace: what workers did, and which messages went between them.

A *worker* is whatever does one thing at a time: a core of an executor, the driver, a thread. An *activity* is what it
did from one time to another. A *message* is sent by one worker and received by another. Columns are numpy arrays of
equal length; times are nanoseconds since 1970, kinds, workers and operators are places in the lists of their names.

Names of kinds are free, but for those below, which mean something to the algorithm. What SnailTrail's records say with
numbers has the names of `SNAILTRAIL`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rechannel.errors import TraceError

Times = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]

UNKNOWN, WAITING, CONTROL, DATA = "unknown", "waiting", "control message", "data message"
RESERVED = (UNKNOWN, WAITING, CONTROL, DATA)
"""DriverKinds that every trace has, in front of its own."""

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
"""Numbers of activity types in SnailTrail's own records."""

MS, NS = 1_000_000, 1_000_000_000
"""A millisecond and a second."""
NONE = -1
"""The place of an operator that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Names:
    """What numbers stand for. kinds: begin with `RESERVED`."""

    workers: Sequence[str]
    operators: Sequence[str] = ()
    kinds: Sequence[str] = RESERVED

    def __post_init__(self) -> None:
        """Check the kinds. Raises TraceError."""
        if tuple(self.kinds[: len(RESERVED)]) != RESERVED:
            msg = f"kinds of a trace begin with {', '.join(RESERVED)}, not {list(self.kinds)[:4]}"
            raise TraceError(msg)

    def kind(self, name: str) -> int:
        """The place of a kind. Raises TraceError."""
        if name not in self.kinds:
            msg = f"the trace has no activity {name!r}; it has {', '.join(self.kinds)}"
            raise TraceError(msg)
        return list(self.kinds).index(name)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activities:
    """What workers did. Shapes (activities,). start, end: ns; operator: NONE where there is none."""

    worker: Indices
    kind: Indices
    operator: Indices
    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.worker)

    @classmethod
    def lasting(
        cls, worker: Indices, kind: Indices, operator: Indices, start: Times, end: Times
    ) -> Activities:
        """Those of some that take time."""
        kept = np.flatnonzero(end > start)
        return cls(
            worker=worker[kept],
            kind=kind[kept],
            operator=operator[kept],
            start=start[kept],
            end=end[kept],
        )

    @classmethod
    def joined(cls, *parts: Activities) -> Activities:
        """All of several."""
        names = ("worker", "kind", "operator", "start", "end")
        return cls(**{n: np.concatenate([getattr(part, n) for part in parts]) for n in names})

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int]]) -> Activities:
        """From (worker, kind, operator, start, end)."""
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
    """What went between workers. Shapes (messages,). sent, received: ns."""

    source: Indices
    target: Indices
    kind: Indices
    operator: Indices
    sent: Times
    received: Times

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Times) -> Messages:
        """Some of the messages."""
        return Messages(
            source=self.source[rows],
            target=self.target[rows],
            kind=self.kind[rows],
            operator=self.operator[rows],
            sent=self.sent[rows],
            received=self.received[rows],
        )

    @classmethod
    def of(cls, rows: Sequence[tuple[int, int, int, int, int, int]]) -> Messages:
        """From (source, target, kind, operator, sent, received)."""
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
        """Check that numbers have names, and that nothing ends before it begins. Raises TraceError."""
        for name, places, known, least in self._numbered():
            if len(places) and (int(places.min()) < least or int(places.max()) >= known):
                msg = f"{name}: a number is not one of 0 to {known - 1}"
                raise TraceError(msg)
        for what, first, last in (
            ("activity", self.activities.start, self.activities.end),
            ("message", self.messages.sent, self.messages.received),
        ):
            back = np.flatnonzero(last < first)
            if len(back):
                at = int(back[0])
                msg = (
                    f"{what} {at} ends {int(first[at] - last[at]):,} ns before it begins; leave it out, or mend its"
                    " times"
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
        """The first and the last time; (0, 0) of an empty trace."""
        firsts = [
            column.min() for column in (self.activities.start, self.messages.sent) if len(column)
        ]
        lasts = [
            column.max() for column in (self.activities.end, self.messages.received) if len(column)
        ]
        return (int(min(firsts)), int(max(lasts))) if firsts else (0, 0)


def within(times: Times, spans: Times) -> npt.NDArray[np.bool_]:
    """Whether times are in any of some spans, shape (spans, 2), ends exclusive."""
    real = spans[spans[:, 1] > spans[:, 0]]
    begun = np.searchsorted(np.sort(real[:, 0]), times, side="right")
    over = np.searchsorted(np.sort(real[:, 1]), times, side="right")
    found: npt.NDArray[np.bool_] = begun > over
    return found
