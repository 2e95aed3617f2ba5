"""The program activity graph of a window [start, end]: all spans and messages, projected on it.

A vertex is a worker at a time: where one of its spans begins or ends, or a boundary of the window.
An edge is a message or a span, except for waiting, which is never on a path; `WindowGraph.rest`
has it for what-ifs. Edges that cross a boundary are clipped there, and edges outside are dropped.
The vertices of a worker are therefore numbered consecutively, and its span i leads from its vertex
i to i + 1. Spans without length are no work and join their ends; messages without length still
lead from one worker to another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.timeline import Timeline
from rechannel.profiling.model.trace import RESERVED, WAITING, Indices, Messages, Times

_WAITING = RESERVED.index(WAITING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowGraph:
    """A window as a graph. Edges have shape (edges,): spans first, then messages."""

    start: int
    """Nanoseconds."""
    end: int
    """Nanoseconds."""
    time: Times
    """Time of every vertex, ns; vertices are ordered by worker and time."""
    source: Times
    """Vertex at which an edge begins."""
    target: Times
    """Vertex at which an edge ends."""
    kind: Indices
    operator: Indices
    worker: Indices
    """Worker at the source of an edge."""
    peer: Indices
    """Worker at the target of an edge; of a span, the same worker."""
    spans: int
    """How many edges are spans."""
    initial: Times
    """Vertices at the beginning of the window."""
    final: Times
    """Vertices at the end of the window."""
    rest: Times
    """What is left of the waiting that begins at a vertex once what it waits for is there, ns; -1
    if none begins. That is nothing if it ends with a message or with the window, and all of it if
    nothing is known that ended it. Shape (vertices,)."""

    @property
    def weight(self) -> Times:
        """Length of every edge, ns."""
        return self.time[self.target] - self.time[self.source]


def window_graph(line: Timeline, went: Messages, start: int, end: int) -> WindowGraph:
    """Return the graph of a window. Raises ValueError if the window ends before it begins."""
    if end <= start:
        msg = f"a window has to end after its start, {start}, not at {end}"
        raise ValueError(msg)
    inside = np.flatnonzero((line.end > start) & (line.start < end))
    worker = line.worker[inside]
    begins = np.maximum(line.start[inside], start)
    ends = np.minimum(line.end[inside], end)
    # The spans of a worker are consecutive, so it has one more vertex than spans.
    new = np.flatnonzero(np.diff(worker, prepend=-1))
    rank = np.zeros(len(inside), dtype=np.int64)
    rank[new] = 1
    rank = np.cumsum(rank) - 1
    first = np.arange(len(inside)) + rank
    time = np.empty(len(inside) + len(new), dtype=np.int64)
    time[first] = begins
    last = np.append(new[1:], len(inside)) - 1 if len(new) else new
    time[first[last] + 1] = ends[last]
    whose = np.empty(len(time), dtype=np.int32)
    whose[first] = worker
    whose[first[last] + 1] = worker[last]
    waits = line.kind[inside] == _WAITING
    moving = np.flatnonzero(~waits)
    sent = np.flatnonzero((went.received > start) & (went.sent < end) | _at_once(went, start, end))
    leaves = _vertices(
        time, whose, went.source[sent], np.maximum(went.sent[sent], start), start, end
    )
    arrives = _vertices(
        time, whose, went.target[sent], np.minimum(went.received[sent], end), start, end
    )
    return WindowGraph(
        start=start,
        end=end,
        time=time,
        source=np.concatenate([first[moving], leaves]),
        target=np.concatenate([first[moving] + 1, arrives]),
        kind=np.concatenate([line.kind[inside][moving], went.kind[sent]]),
        operator=np.concatenate([line.operator[inside][moving], went.operator[sent]]),
        worker=np.concatenate([worker[moving], went.source[sent]]),
        peer=np.concatenate([worker[moving], went.target[sent]]),
        spans=len(moving),
        initial=first[new][time[first[new]] == start],
        final=(first[last] + 1)[time[first[last] + 1] == end],
        rest=_rest(time, first[waits], arrives, end),
    )


def _rest(time: Times, waits: Times, arrives: Times, end: int) -> Times:
    """Return `WindowGraph.rest`. waits: vertices at which waiting begins. arrives: those at which
    messages do.
    """
    ended = np.zeros(len(time), dtype=np.bool_)
    ended[arrives] = True
    ended |= time == end
    # Waiting that is followed by waiting ends with that.
    count = len(waits)
    run = np.cumsum(np.diff(waits, prepend=-1) != 1)
    places = np.where(ended[waits + 1], np.arange(count), count)
    next_ = np.minimum.accumulate(places[::-1])[::-1]
    over = np.append(run, -1)[next_] == run
    found = np.full(len(time), -1, dtype=np.int64)
    found[waits] = np.where(over, 0, time[waits + 1] - time[waits])
    return found


def _at_once(went: Messages, start: int, end: int) -> npt.NDArray[np.bool_]:
    """Return which messages without length lie within the window."""
    found: npt.NDArray[np.bool_] = went.sent == went.received
    return found & (went.sent >= start) & (went.sent <= end)


def _vertices(
    time: Times, whose: Indices, worker: Indices, at: Times, start: int, end: int
) -> Times:
    """Return the vertices of workers at times."""
    width = end - start + 1
    if len(whose) and width * (int(whose[-1]) + 2) >= 1 << 63:
        # The numbers below would be too large: places of times are smaller than times.
        known = np.unique(time)
        time, at = np.searchsorted(known, time), np.searchsorted(known, at)
        start, width = 0, len(known) + 1
    places = whose.astype(np.int64) * width + (time - start)
    found: Times = np.searchsorted(places, worker.astype(np.int64) * width + (at - start))
    return found
