"""What every worker did at every time: activities without overlap, gaps filled, cut at messages.

If activities of a worker overlap, the one that began last counts; of those that began together,
the shorter one. So nested activities are unravelled: the outer one continues after the inner one.

Gaps are filled by SnailTrail's rules (NSDI 2018, section 4.2, and its code). An *edge* of a gap is
the end of an activity, a message that was sent or received, or the beginning or end of the trace.
A gap shorter than `threshold`:

- between two activities is split in its middle; between an activity and a message it belongs to
  the activity;
- between two messages is filled with an unknown activity.

A longer gap is unknown, or *waiting* if it ends with a received message and does not begin with
one: a worker that had done or sent something, and continued when a message came, had waited for
that message. Waiting is never on a critical path. Workers also wait where the trace says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from rechannel.profiling.model.trace import (
    NONE,
    RESERVED,
    UNKNOWN,
    WAITING,
    Indices,
    Times,
    Trace,
    rows_of,
)

_UNKNOWN, _WAITING = RESERVED.index(UNKNOWN), RESERVED.index(WAITING)
# What lies at an edge of a gap.
_SENT, _RECEIVED, _ACTIVITY, _BEGIN = 1, 2, 4, 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Consecutive spans of every worker, from the beginning of the trace to its end.

    Every column has shape (spans,); spans are ordered by worker and time.
    """

    worker: Indices
    """Worker, kind and operator are indices, as those of activities."""
    kind: Indices
    operator: Indices
    start: Times
    """Nanoseconds."""
    end: Times
    """Nanoseconds."""

    def __len__(self) -> int:
        return len(self.worker)

    def take(self, rows: Times) -> Timeline:
        """Return the given rows."""
        return rows_of(self, rows)


def timeline(
    trace: Trace,
    *,
    threshold: int = 0,
    waiting: bool = True,
    span: tuple[int, int] | None = None,
) -> Timeline:
    """Return the spans of all workers.

    threshold: length of the shortest gap that is not given to its neighbours, ns. waiting: whether
    gaps may be waiting; otherwise all of them are unknown. span: beginning and end, ns, of the
    trace that this one is a part of; its own by default.
    """
    did = trace.activities
    lasting = np.flatnonzero(did.end > did.start)
    # Of activities that begin together, the longer one is the outer one.
    longest = lasting[np.argsort(-did.end[lasting], kind="stable")]
    order = longest[_ordered(did.worker[longest], did.start[longest])]
    parts = _unravelled((did.worker[order], did.start[order], did.end[order]))
    workers = len(trace.names.workers)
    rules = (*(span or trace.span), threshold, waiting)
    worker, act, kind, start, end = _filled(parts, _points(trace), workers, rules)
    known = act >= 0
    of = order[act[known]]
    operator = np.full(len(act), NONE, dtype=np.int32)
    kind[known], operator[known] = did.kind[of], did.operator[of]
    return Timeline(worker=worker, kind=kind, operator=operator, start=start, end=end)


def _points(trace: Trace) -> tuple[Indices, Times, Indices]:
    """Return where messages leave and arrive, by worker and time: worker, time, sent or received."""
    went = trace.messages
    worker = np.concatenate([went.source, went.target])
    time = np.concatenate([went.sent, went.received])
    what = np.repeat(np.array([_SENT, _RECEIVED], dtype=np.int32), len(went))
    order = _ordered(worker, time)
    return worker[order], time[order], what[order]


def _ordered(worker: Indices, time: Times) -> Times:
    """Return the order by worker and time; equal elements keep their order."""
    if not len(time):
        return np.empty(0, dtype=np.int64)
    least = int(time.min())
    width = int(time.max()) - least + 1
    if width * (int(worker.max()) + 1) >= 1 << 63:
        return np.lexsort((time, worker))
    # Sorting one number that combines both takes half the time.
    found: Times = np.argsort(worker * np.int64(width) + (time - least), kind="stable")
    return found


@nb.njit(cache=True, nogil=True)
def _unravelled(acts: Any) -> Any:  # pragma: no cover - compiled
    """Cut nested activities into parts that do not overlap.

    acts: (worker, start, end), by worker and start. Returns worker, index of the activity, start,
    end.
    """
    worker, start, end = acts
    count = len(worker)
    whose = np.empty(2 * count, dtype=np.int32)
    act = np.empty(2 * count, dtype=np.int64)
    begins = np.empty(2 * count, dtype=np.int64)
    ends = np.empty(2 * count, dtype=np.int64)
    stack = np.empty(count + 1, dtype=np.int64)
    parts, depth, now = 0, 0, 0
    for a in range(count + 1):
        last = a == count or (a > 0 and worker[a] != worker[a - 1])
        # Close what ends before this one begins; at the end of a worker, everything.
        while depth and (last or end[stack[depth - 1]] <= start[a]):
            depth -= 1
            top = stack[depth]
            if now < end[top]:
                whose[parts], act[parts], begins[parts], ends[parts] = (
                    worker[top],
                    top,
                    now,
                    end[top],
                )
                parts += 1
                now = end[top]
        if a == count:
            break
        if depth and now < start[a]:
            top = stack[depth - 1]
            whose[parts], act[parts], begins[parts], ends[parts] = worker[top], top, now, start[a]
            parts += 1
        now = start[a] if last or not depth else max(now, start[a])
        stack[depth] = a
        depth += 1
    return whose[:parts], act[:parts], begins[:parts], ends[:parts]


@nb.njit(cache=True, nogil=True)
def _filled(
    parts: Any, points: Any, workers: int, rules: Any
) -> Any:  # pragma: no cover - compiled
    """Return all spans: worker, index of the activity (-1 for none), kind of those without one,
    start, end.

    parts: by worker and time. points: worker, time, sent or received. rules: beginning and end of
    the trace, threshold, whether gaps may be waiting.
    """
    whose, act = parts[0], parts[1]
    # Every edge of a part and every point may be followed by a filler of two halves.
    room = 3 * (len(act) + len(points[0]) + workers)
    spans = (
        np.empty(room, dtype=np.int32),
        np.full(room, -1, dtype=np.int64),
        np.zeros(room, dtype=np.int32),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int64),
    )
    # Of a literal as an argument, another version of a function would be compiled.
    zero: Any = np.int64(0)
    count, a, p = zero, zero, zero
    for w in range(workers):
        last_part, last_point = _last_of(w, whose, a), _last_of(w, points[0], p)
        if a < last_part or p < last_point:
            count = _walked(spans, count, w, parts, points, (a, last_part, p, last_point), rules)
        a, p = last_part, last_point
    worker, which, kind, starts, stops = spans
    return worker[:count], which[:count], kind[:count], starts[:count], stops[:count]


@nb.njit(cache=True, nogil=True)
def _last_of(worker: int, workers: Any, first: int) -> int:  # pragma: no cover - compiled
    """Return the end of the rows of a worker that begin at `first`."""
    last = first
    while last < len(workers) and workers[last] == worker:
        last += 1
    return last


@nb.njit(cache=True, nogil=True)
def _walked(  # noqa: PLR0917 - compiled: plain arrays instead of values
    spans: Any, count: int, w: int, parts: Any, points: Any, rows: Any, rules: Any
) -> int:  # pragma: no cover - compiled
    """Add the spans of one worker, from edge to edge; returns the number of spans.

    rows: first and last part, first and last point of the worker.
    """
    _, act, begins, ends = parts
    _, point_time, point_what = points
    a, last_part, p, last_point = rows
    begin, stop, threshold, waiting = rules
    zero: Any = np.int64(0)
    none = zero - 1
    # left: what lies at the beginning of a gap; before: the activity that ends there.
    at, left, before = begin, _BEGIN, none
    while True:
        active = a < last_part and begins[a] <= at
        until = ends[a] if active else begins[a] if a < last_part else stop
        if p < last_point:
            until = min(until, point_time[p])
        what = 0
        while p < last_point and point_time[p] <= until:
            what |= point_what[p]
            p += 1
        if active:
            count = _added(spans, count, w, act[a], zero, at, until)
            before, left = none, what
            if until >= ends[a]:
                before, left = act[a], what | _ACTIVITY
                a += 1
        else:
            after = act[a] if a < last_part and begins[a] == until else none
            if until - at < threshold and (before >= 0 or after >= 0):
                middle = at + (until - at) // 2
                middle = at if before < 0 else until if after < 0 else middle
                count = _added(spans, count, w, before, zero, at, middle)
                count = _added(spans, count, w, after, zero, middle, until)
            else:
                long = waiting and until - at >= threshold
                waits = long and what & _RECEIVED and left != _RECEIVED
                what_for = _WAITING if waits else _UNKNOWN
                count = _added(spans, count, w, none, zero + what_for, at, until)
            before, left = none, what
        at = until
        if at >= stop and a >= last_part:
            break
    return count


@nb.njit(cache=True, nogil=True)
def _added(  # noqa: PLR0917 - a row
    spans: Any, count: int, w: int, act: int, what: int, start: int, end: int
) -> int:  # pragma: no cover - compiled
    """Add a span unless it is empty; returns the number of spans. act: index of the activity, or -1."""
    if end <= start:
        return count
    worker, which, kind, starts, stops = spans
    worker[count], which[count], kind[count] = w, act, what
    starts[count], stops[count] = start, end
    return count + 1
