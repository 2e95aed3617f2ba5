"""A replay of an application: how long its jobs would take if tasks, cores or the driver were different.

The model is list scheduling (Graham, Bounds on multiprocessing timing anomalies, 1969); sparklens
estimates the effect of other numbers of executors in the same way.

- Jobs that overlap are a *group*. Groups follow each other; a group begins when its first job does.
- A job waits for the job of its group that ended last before it began (of the same SQL execution,
  if there is one), plus the delay that was observed; otherwise it begins when it was observed to
  begin, from the start of the group.
- A stage waits for its job and for its parents in the group, plus the latency that was observed.
- Tasks of a stage are dispatched in their order as cores become free; the stage of the lowest job
  and number comes first. A task occupies one core for as long as it took, on any core.
- A task that is retried waits for the end of its failed attempt; a speculative copy begins as long
  after its stage as it did. Both begin even if no core is free.
- A stage ends with its last task that something waited for; a job ends with its last stage, plus
  the tail that was observed. A group ends with its last job.

It leaves out: tasks that take longer because more of them run at the same time, or because data is
farther away; waiting for cores that hold the data; fair scheduling between pools; caches that would
be colder or warmer. What is left out and does not change cancels out, because predictions are
relative to the replay of the unchanged application; see `Case.gain`.

All times are milliseconds.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numba as nb
import numpy as np

from rechannel.profiling.diagnosis.schedule import LATE, WAITED, Floats, Ints, Schedule, Variant

_STEP, _JOB, _READY, _TASK, _ENDED, _LATE, _DONE = range(7)
"""Events: the number of cores changes, a job begins, a stage may begin, a task ends, a stage ends, a
retry or copy begins, a job ends."""


def lengths(schedule: Schedule, variant: Variant, groups: Ints) -> Floats:
    """Return how long some groups of jobs take, ms."""
    # One layout of all arrays, so that there is one compiled function.
    found: Floats = _lengths(_plain(schedule), _plain(variant), np.ascontiguousarray(groups))
    return found


def _plain(values: Any) -> Any:
    return type(values)(
        *(
            np.require(v, requirements=("C", "W")) if isinstance(v, np.ndarray) else v
            for v in values
        )
    )


@nb.njit(cache=True, nogil=True)
def _lengths(s: Any, v: Any, groups: Any) -> Any:  # pragma: no cover - compiled
    found = np.zeros(len(groups))
    for i in range(len(groups)):
        found[i] = _length(s, v, groups[i])
    return found


_WIDTH = 1 << 31
"""Task i of stage u has the number u * _WIDTH + i in events."""


class _State(NamedTuple):
    """Where a replay is. Stages and jobs are counted from the first of the group."""

    group: int
    needs: Ints
    """Parents, and the job, that a stage waits for."""
    following: Ints
    """Next task of a stage that waits for a core."""
    open_tasks: Ints
    """Tasks that a stage waits for, once it has begun."""
    open_stages: Ints
    """Stages that a job waits for."""
    next_of: Ints
    """First job that waits for a job, and the next that waits for the same one. Shape (jobs, 2)."""


class _Events(NamedTuple):
    """A binary heap of events by time, kind and number."""

    times: Floats
    codes: Ints
    """Kind and number."""
    held: Ints
    """How many there are. Shape (1,)."""


_KIND = 1 << 60
"""An event of kind k has the code k * _KIND + number."""


@nb.njit(cache=True, nogil=True)
def _empty(s: Any, v: Any, group: int) -> Any:  # pragma: no cover - compiled
    """Return a heap with room for all events of a group that may be there at one time."""
    first, last = s.stages[s.jobs[group]], s.stages[s.jobs[group + 1]]
    tasks, cores, most = 0, 0.0, 0.0
    for u in range(first, last):
        tasks += s.counts[u] if v.place[u] < 0 else v.counts[u]
    for k in range(s.step[group], s.step[group + 1]):
        cores += s.steps[k, 1]
        most = max(most, cores * v.cores if cores > 0 else 0.0)
    running = tasks if most >= tasks else int(most) + 1
    room = running + 2 * (last - first) + 2 * (s.jobs[group + 1] - s.jobs[group])
    room += s.late[last] - s.late[first] + s.step[group + 1] - s.step[group] + 1
    return _Events(np.empty(room), np.empty(room, dtype=np.int64), np.zeros(1, dtype=np.int64))


@nb.njit(cache=True, nogil=True)
def _push(events: Any, time: float, code: int) -> None:  # pragma: no cover - compiled
    """Add an event. One number for its kind and number: each literal would be compiled anew."""
    at = events.held[0]
    events.held[0] += 1
    while at:
        up = (at - 1) // 2
        if (events.times[up], events.codes[up]) <= (time, code):
            break
        events.times[at], events.codes[at] = events.times[up], events.codes[up]
        at = up
    events.times[at], events.codes[at] = time, code


@nb.njit(cache=True, nogil=True)
def _pop(events: Any) -> Any:  # pragma: no cover - compiled
    """Remove the first event, and return its time, kind and number."""
    times, codes = events.times, events.codes
    first, code = times[0], codes[0]
    events.held[0] -= 1
    count = events.held[0]
    time, last = times[count], codes[count]
    at, down = 0, 1
    while down < count:
        if down + 1 < count and (times[down + 1], codes[down + 1]) < (times[down], codes[down]):
            down += 1
        if (time, last) <= (times[down], codes[down]):
            break
        times[at], codes[at] = times[down], codes[down]
        at, down = down, 2 * down + 1
    times[at], codes[at] = time, last
    return first, code // _KIND, code % _KIND


@nb.njit(cache=True, nogil=True)
def _length(s: Any, v: Any, group: int) -> float:  # pragma: no cover - compiled
    """Return how long a group takes."""
    first, last = s.jobs[group], s.jobs[group + 1]
    base, count = s.stages[first], s.stages[last] - s.stages[first]
    state = _State(
        group,
        s.parents[base : base + count] + 1,
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        s.stages[first + 1 : last + 1] - s.stages[first:last],
        np.full((last - first, 2), -1, dtype=np.int64),
    )
    events = _empty(s, v, group)
    ready = _Events(np.empty(count), np.empty(count, np.int64), np.zeros(1, np.int64))
    for k in range(s.step[group], s.step[group + 1]):
        _push(events, s.steps[k, 0], _STEP * _KIND + k)
    for j in range(first, last):
        before = s.after[j] - first
        if s.after[j] < 0:
            _push(events, s.delay[j], _JOB * _KIND + j)
        else:
            state.next_of[j - first, 1] = state.next_of[before, 0]
            state.next_of[before, 0] = j
    free, now, length = inf if v.cores == inf else 0.0, 0.0, 0.0
    while events.held[0] or ready.held[0]:
        if events.held[0]:
            now, what, which = _pop(events)
            free += _happened(s, v, state, (now, what, which), events, ready)
            if what == _DONE:
                length = max(length, now)
            if events.held[0] and events.times[0] == now:
                continue
        else:
            # No core is left, and none will come: one stays.
            free = 1.0
        while free >= 1.0 and ready.held[0]:
            free -= 1.0
            _dispatch(s, v, state, now, events, ready)
    return length


@nb.njit(cache=True, nogil=True, inline="always")
def _happened(
    s: Any, v: Any, state: Any, event: Any, events: Any, ready: Any
) -> float:  # pragma: no cover - compiled
    """Note what follows from an event, and return how many cores it frees."""
    now, what, which = event
    first = s.jobs[state.group]
    base = s.stages[first]
    if what == _STEP:
        return s.steps[which, 1] * v.cores if v.cores != inf else 0.0
    if what == _TASK:
        _task_ended(s, v, state, event, events)
        return 1.0
    if what == _LATE:
        took = _duration(s, v, which // _WIDTH, which % _WIDTH)
        _push(events, now + took, _TASK * _KIND + which)
        return -1.0
    if what in (_JOB, _DONE):
        _job_changed(s, state, event, events)
    elif what == _READY:
        state.open_tasks[which - base] = _begin(s, v, which, now, events)
        if state.open_tasks[which - base] == 0:
            _push(events, now, _ENDED * _KIND + which)
        if _queued(s, v, state.following, base, which):
            _push(ready, float(which), which)
    else:
        for k in range(s.child[which], s.child[which + 1]):
            _met(s, state.needs, base, s.children[k], now, events)
        j = s.job[which]
        state.open_stages[j - first] -= 1
        if state.open_stages[j - first] == 0:
            _push(events, now + s.tail[j], _DONE * _KIND + j)
    return 0.0


@nb.njit(cache=True, nogil=True)
def _job_changed(
    s: Any, state: Any, event: Any, events: Any
) -> None:  # pragma: no cover - compiled
    """Note that a job began or ended."""
    now, what, which = event
    first = s.jobs[state.group]
    if what == _DONE:
        j = state.next_of[which - first, 0]
        while j >= 0:
            _push(events, now + s.delay[j], _JOB * _KIND + j)
            j = state.next_of[j - first, 1]
        return
    for u in range(s.stages[which], s.stages[which + 1]):
        _met(s, state.needs, s.stages[first], u, now, events)
    if state.open_stages[which - first] == 0:
        _push(events, now + s.tail[which], _DONE * _KIND + which)


@nb.njit(cache=True, nogil=True, inline="always")
def _task_ended(
    s: Any, v: Any, state: Any, event: Any, events: Any
) -> None:  # pragma: no cover - compiled
    """Note that a task ended."""
    now, _, which = event
    stage, task = which // _WIDTH, which % _WIDTH
    at = stage - s.stages[s.jobs[state.group]]
    same = _same(s, v, stage)
    if same and s.late[stage + 1] > s.late[stage]:
        begin, end, mine = s.late[stage], s.late[stage + 1], s.first[stage] + task
        while begin < end:
            middle = (begin + end) // 2
            if s.late_tasks[middle, 1] < mine:
                begin = middle + 1
            else:
                end = middle
        k = begin
        if k < s.late[stage + 1] and s.late_tasks[k, 1] == mine:
            number = stage * _WIDTH + s.late_tasks[k, 0] - s.first[stage]
            _push(events, now + s.late_delays[k], _LATE * _KIND + number)
    if not same or s.flags[s.first[stage] + task] & WAITED:
        state.open_tasks[at] -= 1
        if state.open_tasks[at] == 0:
            _push(events, now, _ENDED * _KIND + stage)


@nb.njit(cache=True, nogil=True, inline="always")
def _dispatch(
    s: Any, v: Any, state: Any, now: float, events: Any, ready: Any
) -> None:  # pragma: no cover - compiled
    """Give a core to the next task."""
    base, stage = s.stages[s.jobs[state.group]], int(ready.times[0])
    task = state.following[stage - base]
    code = _TASK * _KIND + stage * _WIDTH + task
    _push(events, now + _duration(s, v, stage, task), code)
    state.following[stage - base] += 1
    if not _queued(s, v, state.following, base, stage):
        _pop(ready)


@nb.njit(cache=True, nogil=True)
def _met(
    s: Any, needs: Any, base: int, stage: int, now: float, events: Any
) -> None:  # pragma: no cover - compiled
    """Note that something that a stage waited for has begun or ended."""
    needs[stage - base] -= 1
    if needs[stage - base] == 0:
        _push(events, now + s.latency[stage], _READY * _KIND + stage)


@nb.njit(cache=True, nogil=True)
def _begin(
    s: Any, v: Any, stage: int, now: float, events: Any
) -> int:  # pragma: no cover - compiled
    """Note when copies of tasks begin, and return how many tasks the stage waits for."""
    if not _same(s, v, stage):
        return int(v.counts[stage])
    first = s.first[stage]
    for k in range(s.late[stage], s.late[stage + 1]):
        if s.late_tasks[k, 1] < 0:
            number = stage * _WIDTH + s.late_tasks[k, 0] - first
            _push(events, now + s.late_delays[k], _LATE * _KIND + number)
    waited = 0
    for i in range(first, first + s.counts[stage]):
        waited += s.flags[i] & WAITED
    return waited


@nb.njit(cache=True, nogil=True, inline="always")
def _queued(
    s: Any, v: Any, following: Any, base: int, stage: int
) -> bool:  # pragma: no cover - compiled
    """Skip retries and copies, and return whether another task of a stage waits for a core."""
    i, end = following[stage - base], s.counts[stage] if v.place[stage] < 0 else v.counts[stage]
    if _same(s, v, stage):
        while i < end and s.flags[s.first[stage] + i] & LATE:
            i += 1
        following[stage - base] = i
    return bool(i < end)


@nb.njit(cache=True, nogil=True, inline="always")
def _same(s: Any, v: Any, stage: int) -> bool:  # pragma: no cover - compiled
    """Return whether a stage has as many tasks as it had."""
    return bool(v.place[stage] < 0 or v.counts[stage] == s.counts[stage])


@nb.njit(cache=True, nogil=True, inline="always")
def _duration(s: Any, v: Any, stage: int, task: int) -> float:  # pragma: no cover - compiled
    if v.place[stage] < 0:
        return float(s.durations[s.first[stage] + task])
    return float(v.durations[v.place[stage] + task])
