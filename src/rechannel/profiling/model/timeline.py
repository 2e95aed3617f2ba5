"""What every worker did at every time: activities without overlap, gaps filled, cut where messages leave and arrive.

Of activities that overlap on a worker the one that began last counts (of those that began together the shorter one):
nested ones are unravelled, the outer one goes on behind the inner one.

Gaps are filled by SnailTrail's rules (NSDI 2018, section 4.2, and its code). A *border* of a gap is the end of an
activity, a message that was sent or received, or the begin or end of the trace. A gap shorter than `threshold`:

- between two activities: they meet in its middle; between an activity and a message: the activity reaches there;
- between two messages: it is filled with an unknown activity.

A gap that is as long or longer is unknown; it is *waiting* if it ends with a message that is received and does not
begin with one: a worker that had done or sent something, and went on when something came, had waited for it. Waiting is
never on a critical path. Workers also wait where a trace says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from rechannel.profiling.model.trace import NONE, RESERVED, UNKNOWN, WAITING, Indices, Times, Trace

_UNKNOWN, _WAITING = RESERVED.index(UNKNOWN), RESERVED.index(WAITING)
# What is at a border of a gap.
_SENT, _RECEIVED, _ACTIVITY, _BEGIN = 1, 2, 4, 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timeline:
    """Spans by worker and time, one behind the other from the begin of the trace to its end. Shapes (spans,).

    worker, kind, operator: as of activities. start, end: ns.
    """

    worker: Indices
    kind: Indices
    operator: Indices
    start: Times
    end: Times

    def __len__(self) -> int:
        return len(self.worker)

    def take(self, rows: Times) -> Timeline:
        """Some of the spans."""
        return Timeline(
            worker=self.worker[rows],
            kind=self.kind[rows],
            operator=self.operator[rows],
            start=self.start[rows],
            end=self.end[rows],
        )


def timeline(
    trace: Trace,
    *,
    threshold: int = 0,
    waiting: bool = True,
    span: tuple[int, int] | None = None,
) -> Timeline:
    """Spans of all workers. threshold: ns. waiting: whether gaps may be waiting, or are all unknown.

    span: begin and end, ns, of what the trace is a part of; its own by default.
    """
    did = trace.activities
    lasting = np.flatnonzero(did.end > did.start)
    # Of those that begin together the longer one is the outer one.
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
    """Where messages leave and arrive, by worker and time: worker, time, which of both."""
    went = trace.messages
    worker = np.concatenate([went.source, went.target])
    time = np.concatenate([went.sent, went.received])
    what = np.repeat(np.array([_SENT, _RECEIVED], dtype=np.int32), len(went))
    order = _ordered(worker, time)
    return worker[order], time[order], what[order]


def _ordered(worker: Indices, time: Times) -> Times:
    """The order by worker and time; what is equal stays in its order."""
    if not len(time):
        return np.empty(0, dtype=np.int64)
    least = int(time.min())
    width = int(time.max()) - least + 1
    if width * (int(worker.max()) + 1) >= 1 << 63:
        return np.lexsort((time, worker))
    # One number that has both is sorted in half the time.
    found: Times = np.argsort(worker * np.int64(width) + (time - least), kind="stable")
    return found


@nb.njit(cache=True, nogil=True)
def _unravelled(acts: Any) -> Any:  # pragma: no cover - compiled
    """Parts of activities (worker, start, end), by worker and start: worker, place of the activity, from, to."""
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
        # Those that are over before this one begins; at the end of a worker, all.
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
def _filled(  # noqa: PLR0912, PLR0915 - one walk, compiled as one
    parts: Any, points: Any, workers: int, rules: Any
) -> Any:  # pragma: no cover - compiled
    """Spans: worker, place of the activity (-1 for none), kind of those without one, from, to.

    parts: by worker and time. points: worker, time, what is there. rules: begin and end of the trace, threshold,
    whether gaps may be waiting.
    """
    whose, act, begins, ends = parts
    point_worker, point_time, point_what = points
    begin, stop, threshold, waiting = rules
    # Every border of a part and every point may be followed by a filler of two halves.
    room = 3 * (len(act) + len(point_time) + workers)
    worker = np.empty(room, dtype=np.int32)
    which = np.full(room, -1, dtype=np.int64)
    kind = np.zeros(room, dtype=np.int32)
    starts = np.empty(room, dtype=np.int64)
    stops = np.empty(room, dtype=np.int64)
    count, a, p = 0, 0, 0
    for w in range(workers):
        last_part = a
        while last_part < len(act) and whose[last_part] == w:
            last_part += 1
        last_point = p
        while last_point < len(point_time) and point_worker[last_point] == w:
            last_point += 1
        if a == last_part and p == last_point:
            continue
        # Walk from border to border. left: what is at the begin of a gap; before: the activity that ends there.
        at, left, before = begin, _BEGIN, -1
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
                if until > at:
                    worker[count], which[count], starts[count], stops[count] = w, act[a], at, until
                    count += 1
                before, left = -1, what
                if until >= ends[a]:
                    before, left = act[a], what | _ACTIVITY
                    a += 1
            else:
                after = act[a] if a < last_part and begins[a] == until else -1
                if until > at and until - at < threshold and (before >= 0 or after >= 0):
                    middle = at + (until - at) // 2
                    middle = at if before < 0 else until if after < 0 else middle
                    if middle > at:
                        worker[count], which[count], starts[count], stops[count] = (
                            w,
                            before,
                            at,
                            middle,
                        )
                        count += 1
                    if until > middle:
                        worker[count], which[count], starts[count], stops[count] = (
                            w,
                            after,
                            middle,
                            until,
                        )
                        count += 1
                elif until > at:
                    waits = (
                        waiting
                        and until - at >= threshold
                        and what & _RECEIVED
                        and left != _RECEIVED
                    )
                    worker[count], starts[count], stops[count] = w, at, until
                    kind[count] = _WAITING if waits else _UNKNOWN
                    count += 1
                before, left = -1, what
            at = until
            if at >= stop and a >= last_part:
                break
        p = last_point
    return worker[:count], which[:count], kind[:count], starts[:count], stops[:count]
