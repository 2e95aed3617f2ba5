"""A trace of any size, row by row in blocks; what a part of it needs to know of the rest.

A gap reaches from one *border* to the next, and what it is depends on both: so a part has, for every worker, also the
rows of its last border before, and of its first one behind. Borders before are ends of activities, those behind begins
of them; messages are borders of both kinds, where they leave and where they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import Activities, Messages, Names, Times, Trace
from rechannel.profiling.storage.blocks import RowBlocks, Rows

ACTIVITY = np.dtype(
    [("worker", "i4"), ("kind", "i4"), ("operator", "i4"), ("start", "i8"), ("end", "i8")]
)
MESSAGE = np.dtype(
    [
        ("source", "i4"),
        ("target", "i4"),
        ("kind", "i4"),
        ("operator", "i4"),
        ("sent", "i8"),
        ("received", "i8"),
    ]
)


def activity_blocks() -> RowBlocks:
    """For rows of `ACTIVITY`."""
    return RowBlocks(ACTIVITY, "start", "end")


def message_blocks() -> RowBlocks:
    """For rows of `MESSAGE`."""
    return RowBlocks(MESSAGE, "sent", "received")


def packed(kind: np.dtype[Any], columns: object) -> Rows:
    """Rows of columns: attributes that have the names of the fields."""
    names = kind.names or ()
    rows = np.empty(len(getattr(columns, names[0])), dtype=kind)
    for name in names:
        rows[name] = getattr(columns, name)
    return rows


def _columns(rows: Rows) -> dict[str, Any]:
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTrace:
    """A trace of any size. did: activities; went: messages."""

    names: Names
    did: RowBlocks
    went: RowBlocks

    @classmethod
    def of(cls, trace: Trace) -> StoredTrace:
        """A trace that is in memory."""
        made = cls(names=trace.names, did=activity_blocks(), went=message_blocks())
        made.did.add(packed(ACTIVITY, trace.activities))
        made.went.add(packed(MESSAGE, trace.messages))
        return made

    @property
    def span(self) -> tuple[int, int]:
        """Begin and end, ns; (0, 0) of an empty trace."""
        spans = [blocks.span for blocks in (self.did, self.went)]
        known = [span for span in spans if span is not None]
        return (min(a for a, _ in known), max(b for _, b in known)) if known else (0, 0)

    @property
    def about(self) -> str:
        """How much there is."""
        return f"{len(self.names.workers)} workers, {len(self.did):,} activities, {len(self.went):,} messages"

    def before(self, times: Times) -> npt.NDArray[np.float64]:
        """About how many rows lie before each of some times."""
        return self.did.before(times) + self.went.before(times)

    def cut(self, cuts: Times) -> StoredTraceParts:
        """Parts from each time to the next."""
        return StoredTraceParts(stored=self, cuts=cuts, borders=_borders(self, cuts))

    def whole(self) -> Trace:
        """All of it, in memory."""
        return self.trace(self.did.meeting(*self.span), self.went.meeting(*self.span))

    def trace(self, did: Rows, went: Rows) -> Trace:
        """A trace of some of the rows."""
        return Trace(
            names=self.names,
            activities=Activities(**_columns(did)),
            messages=Messages(**_columns(went)),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Borders:
    """Rows of the outermost borders of every worker in every part.

    before, behind: shape (parts, workers), the part that has a worker's last border before this one, or its first one
    behind; -1 for none. last, first: by part, activities and messages.
    """

    before: Times
    behind: Times
    last: Sequence[tuple[Rows, Rows]]
    first: Sequence[tuple[Rows, Rows]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTraceParts:
    """A trace that was cut; a part is read when it is asked for."""

    stored: StoredTrace
    cuts: Times
    borders: _Borders | None = field(repr=False)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __getitem__(self, number: int) -> Trace:
        start, end = int(self.cuts[number]), int(self.cuts[number + 1])
        did = [self.stored.did.meeting(start, end)]
        went = [self.stored.went.meeting(start, end)]
        if self.borders is not None:
            known = self.borders
            for found, of in ((known.before, known.last), (known.behind, known.first)):
                for part in np.unique(found[number][found[number] >= 0]).tolist():
                    whose = found[number] == part
                    acts, messages = of[part]
                    outside = (acts["end"] < start) | (acts["start"] > end)
                    did.append(acts[whose[acts["worker"]] & outside])
                    outside = (messages["received"] < start) | (messages["sent"] > end)
                    asked = whose[messages["source"]] | whose[messages["target"]]
                    went.append(messages[asked & outside])
        return self.stored.trace(np.concatenate(did), np.concatenate(went))


def _borders(stored: StoredTrace, cuts: Times) -> _Borders | None:
    """Of all parts; None where there is but one."""
    parts, workers = len(cuts) - 1, len(stored.names.workers)
    if parts < 2:
        return None
    has = np.zeros((2, parts, workers), dtype=np.bool_)
    last, first = [], []
    for part in range(parts):
        start, end = int(cuts[part]), int(cuts[part + 1])
        did, went = stored.did.meeting(start, end), stored.went.meeting(start, end)
        acts, messages = _columns(did), _columns(went)
        columns = (acts["worker"], acts["start"], acts["end"])
        ends = tuple(messages[name] for name in ("source", "sent", "target", "received"))
        latest, soonest = _outermost(columns, ends, workers, start, end)
        has[0, part], has[1, part] = latest >= start, soonest <= end
        last.append(_rows_at(did, did["end"], went, latest))
        first.append(_rows_at(did, did["start"], went, soonest))
    places = np.arange(parts)[:, None]
    before = np.maximum.accumulate(np.where(has[0], places, -1), axis=0)
    behind = np.minimum.accumulate(np.where(has[1], places, parts)[::-1], axis=0)[::-1]
    nobody = np.full((1, workers), -1)
    behind = np.where(behind == parts, -1, behind)
    return _Borders(
        before=np.concatenate([nobody, before[:-1]]),
        behind=np.concatenate([behind[1:], nobody]),
        last=last,
        first=first,
    )


def _rows_at(did: Rows, border: Times, went: Rows, times: Times) -> tuple[Rows, Rows]:
    """Rows with a border at the time of their worker."""
    acts = did[border == times[did["worker"]]]
    leaving = went["sent"] == times[went["source"]]
    arriving = went["received"] == times[went["target"]]
    return acts, went[leaving | arriving]


@nb.njit(cache=True, nogil=True)
def _outermost(
    did: Any, went: Any, workers: int, start: int, end: int
) -> Any:  # pragma: no cover - compiled
    """The last border of every worker that is one for what follows, and the first for what came, in [start, end]."""
    latest = np.full(workers, start - 1, dtype=np.int64)
    soonest = np.full(workers, end + 1, dtype=np.int64)
    whose, begins, ends = did
    for i in range(len(whose)):
        w = whose[i]
        if begins[i] == ends[i]:
            continue
        if ends[i] <= end:
            latest[w] = max(latest[w], ends[i])
        if begins[i] >= start:
            soonest[w] = min(soonest[w], begins[i])
    source, sent, target, received = went
    for i in range(len(source)):
        for w, time in ((source[i], sent[i]), (target[i], received[i])):
            if start <= time <= end:
                latest[w] = max(latest[w], time)
                soonest[w] = min(soonest[w], time)
    return latest, soonest
