"""A trace of any size, as rows in blocks, and what a part of it needs to know of the rest.

A gap reaches from one *edge* to the next, and what it is depends on both. So a part also has, for
every worker, the rows of its last edge before the part, and of its first edge after it. Edges
before a part are ends of activities, edges after it are starts of activities; messages are both,
where they leave and where they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import Activities, Messages, Names, Times, Trace
from rechannel.profiling.model.words import counted
from rechannel.profiling.storage.blocks import RowBlocks, Rows

ACTIVITY = np.dtype(
    [("worker", "i4"), ("kind", "i4"), ("operator", "i4"), ("start", "i8"), ("end", "i8")]
)
"""A row of `Activities`."""
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
"""A row of `Messages`."""


def activity_blocks() -> RowBlocks:
    """Return blocks for rows of `ACTIVITY`."""
    return RowBlocks(ACTIVITY, "start", "end")


def message_blocks() -> RowBlocks:
    """Return blocks for rows of `MESSAGE`."""
    return RowBlocks(MESSAGE, "sent", "received")


def packed(kind: np.dtype[Any], columns: object) -> Rows:
    """Return rows of a record type from an object whose attributes are the columns."""
    names = kind.names or ()
    rows = np.empty(len(getattr(columns, names[0])), dtype=kind)
    for name in names:
        rows[name] = getattr(columns, name)
    return rows


def _columns(rows: Rows) -> dict[str, Any]:
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTrace:
    """A trace of any size."""

    names: Names
    did: RowBlocks
    """Activities."""
    went: RowBlocks
    """Messages."""

    @classmethod
    def of(cls, trace: Trace) -> StoredTrace:
        """Store a trace that is in memory."""
        made = cls(names=trace.names, did=activity_blocks(), went=message_blocks())
        made.did.add(packed(ACTIVITY, trace.activities))
        made.went.add(packed(MESSAGE, trace.messages))
        return made

    @property
    def span(self) -> tuple[int, int]:
        """Beginning and end, ns; (0, 0) if the trace is empty."""
        spans = [blocks.span for blocks in (self.did, self.went)]
        known = [span for span in spans if span is not None]
        return (min(a for a, _ in known), max(b for _, b in known)) if known else (0, 0)

    @property
    def about(self) -> str:
        """The size of the trace, in words."""
        did = counted(len(self.did), "activity", "activities")
        return f"{counted(len(self.names.workers), 'worker')}, {did}, {counted(len(self.went), 'message')}"

    def before(self, times: Times) -> npt.NDArray[np.float64]:
        """Estimate how many rows lie before each of some times."""
        return self.did.before(times) + self.went.before(times)

    def moments(self) -> Iterator[Times]:
        """Yield the times at which activities and messages begin or end, ns."""
        for blocks, names in ((self.did, ("start", "end")), (self.went, ("sent", "received"))):
            for rows in blocks.each():
                yield np.concatenate([rows[name] for name in names])

    def cut(self, cuts: Times) -> StoredTraceParts:
        """Cut the trace into parts from each time to the next."""
        return StoredTraceParts(stored=self, cuts=cuts, edges=_edges(self, cuts))

    def whole(self) -> Trace:
        """Return all of it, in memory."""
        return self.trace(self.did.meeting(*self.span), self.went.meeting(*self.span))

    def trace(self, did: Rows, went: Rows) -> Trace:
        """Return a trace of some of the rows."""
        return Trace(
            names=self.names,
            activities=Activities(**_columns(did)),
            messages=Messages(**_columns(went)),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Edges:
    """Rows of the outermost edges of every worker in every part."""

    before: Times
    """Part that has a worker's last edge before this part; -1 for none. Shape (parts, workers)."""
    after: Times
    """Part that has a worker's first edge after this part; -1 for none. Shape (parts, workers)."""
    last: Sequence[tuple[Rows, Rows]]
    """Activities and messages of the last edges, by part."""
    first: Sequence[tuple[Rows, Rows]]
    """Activities and messages of the first edges, by part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredTraceParts:
    """A trace that has been cut; a part is read when it is asked for."""

    stored: StoredTrace
    cuts: Times
    edges: _Edges | None = field(repr=False)

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __getitem__(self, number: int) -> Trace:
        start, end = int(self.cuts[number]), int(self.cuts[number + 1])
        did = [self.stored.did.meeting(start, end)]
        went = [self.stored.went.meeting(start, end)]
        if self.edges is not None:
            known = self.edges
            for found, of in ((known.before, known.last), (known.after, known.first)):
                for part in np.unique(found[number][found[number] >= 0]).tolist():
                    whose = found[number] == part
                    acts, messages = of[part]
                    outside = (acts["end"] < start) | (acts["start"] > end)
                    did.append(acts[whose[acts["worker"]] & outside])
                    outside = (messages["received"] < start) | (messages["sent"] > end)
                    asked = whose[messages["source"]] | whose[messages["target"]]
                    went.append(messages[asked & outside])
        return self.stored.trace(np.concatenate(did), np.concatenate(went))


def _edges(stored: StoredTrace, cuts: Times) -> _Edges | None:
    """Return the edges of all parts; None if there is only one part."""
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
    after = np.minimum.accumulate(np.where(has[1], places, parts)[::-1], axis=0)[::-1]
    unknown = np.full((1, workers), -1)
    after = np.where(after == parts, -1, after)
    return _Edges(
        before=np.concatenate([unknown, before[:-1]]),
        after=np.concatenate([after[1:], unknown]),
        last=last,
        first=first,
    )


def _rows_at(did: Rows, edge: Times, went: Rows, times: Times) -> tuple[Rows, Rows]:
    """Return the rows that have an edge at the given time of their worker."""
    acts = did[edge == times[did["worker"]]]
    leaving = went["sent"] == times[went["source"]]
    arriving = went["received"] == times[went["target"]]
    return acts, went[leaving | arriving]


@nb.njit(cache=True, nogil=True)
def _outermost(
    did: Any, went: Any, workers: int, start: int, end: int
) -> Any:  # pragma: no cover - compiled
    """Return every worker's last edge for what follows, and its first edge for what precedes, in
    [start, end].
    """
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
