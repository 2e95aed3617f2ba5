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

import heapq
from math import inf
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Durations = npt.NDArray[np.float32]

WAITED, LATE = 1, 2
"""Flags of tasks: something waited for its end; it is a retry or a copy, in `Schedule.late`."""

_STEP, _JOB, _READY, _TASK, _ENDED, _LATE, _DONE = range(7)
"""Events: the number of cores changes, a job begins, a stage may begin, a task ends, a stage ends, a
retry or copy begins, a job ends."""


class Schedule(NamedTuple):
    """What ran, and what waited for what.

    Stages are in order of their job and number, jobs in order of their group: the rows of group g
    in a table of jobs are those from `jobs[g]` to `jobs[g + 1]`.
    """

    jobs: Ints
    """First job of every group, and the number of jobs."""
    stages: Ints
    """First stage of every job, and the number of stages."""
    job: Ints
    """Job of every stage."""
    first: Ints
    """First task of every stage, an index into `durations`."""
    counts: Ints
    """Number of tasks of every stage."""
    durations: Durations
    """Of tasks, those of a stage in the order of their launches."""
    flags: npt.NDArray[np.uint8]
    """`WAITED` and `LATE`, by task."""
    latency: Floats
    """From the end of the last parent or the start of the job, by stage."""
    child: Ints
    """First row in `children` of every stage, and their number."""
    children: Ints
    parents: Ints
    """Number of parents in the group, by stage."""
    after: Ints
    """The job that a job waits for; -1 if there is none."""
    delay: Floats
    """Of a job, from the end of the one that it waits for, or from the start of the group."""
    tail: Floats
    """From the end of the last stage to the end of the job, by job."""
    late: Ints
    """First row in `late_tasks` of every stage, and their number."""
    late_tasks: Ints
    """Retries and copies of a stage, and what each waits for: a task, or -1 for the start of the
    stage. Sorted by the latter. Shape (late, 2).
    """
    late_delays: Floats
    step: Ints
    """First row in `steps` of every group, and their number."""
    steps: Floats
    """Times from the start of the group, and how many cores come or go. Shape (steps, 2)."""


class Variant(NamedTuple):
    """What is different in a replay."""

    place: Ints
    """Where the tasks of a stage begin in `durations`; -1 for stages with the tasks that they had."""
    counts: Ints
    """Number of tasks of every stage with tasks in `durations`."""
    durations: Durations
    latency: Floats
    """As in `Schedule`; so are `delay` and `tail`."""
    delay: Floats
    tail: Floats
    cores: float
    """Factor on the number of cores; infinity if no task ever waits for one."""


def unchanged(schedule: Schedule) -> Variant:
    """Return the variant in which everything is what it was."""
    none = np.zeros(len(schedule.first), dtype=np.int64)
    return Variant(
        place=none - 1,
        counts=none,
        durations=np.empty(0, dtype=np.float32),
        latency=schedule.latency,
        delay=schedule.delay,
        tail=schedule.tail,
        cores=1.0,
    )


def lengths(schedule: Schedule, variant: Variant, groups: Ints) -> Floats:
    """Return how long some groups of jobs take, ms."""
    found: Floats = _lengths(schedule, variant, groups)
    return found


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
    events, ready = [(0.0, _STEP, -1)], [base]
    ready.pop()
    for k in range(s.step[group], s.step[group + 1]):
        heapq.heappush(events, (s.steps[k, 0], _STEP, k))
    for j in range(first, last):
        before = s.after[j] - first
        if s.after[j] < 0:
            heapq.heappush(events, (v.delay[j], _JOB, j))
        else:
            state.next_of[j - first, 1] = state.next_of[before, 0]
            state.next_of[before, 0] = j
    free, now, length = inf if v.cores == inf else 0.0, 0.0, 0.0
    while events or ready:
        if events:
            now, what, which = heapq.heappop(events)
            free += _happened(s, v, state, (now, what, which), events, ready)
            if what == _DONE:
                length = max(length, now)
            if events and events[0][0] == now:
                continue
        else:
            # No core is left, and none will come: one stays.
            free = 1.0
        while free >= 1.0 and ready:
            free -= 1.0
            _dispatch(s, v, state, now, events, ready)
    return length


@nb.njit(cache=True, nogil=True)
def _happened(
    s: Any, v: Any, state: Any, event: Any, events: Any, ready: Any
) -> float:  # pragma: no cover - compiled
    """Note what follows from an event, and return how many cores it frees."""
    now, what, which = event
    first = s.jobs[state.group]
    base = s.stages[first]
    if what == _STEP:
        return s.steps[which, 1] * v.cores if which >= 0 and v.cores != inf else 0.0
    if what == _TASK:
        _task_ended(s, v, state, event, events)
        return 1.0
    if what == _LATE:
        took = _duration(s, v, which // _WIDTH, which % _WIDTH)
        heapq.heappush(events, (now + took, _TASK, which))
        return -1.0
    if what in (_JOB, _DONE):
        _job_changed(s, v, state, event, events)
    elif what == _READY:
        state.open_tasks[which - base] = _begin(s, v, which, now, events)
        if state.open_tasks[which - base] == 0:
            heapq.heappush(events, (now, _ENDED, which))
        if _queued(s, v, state.following, base, which):
            heapq.heappush(ready, which)
    else:
        for k in range(s.child[which], s.child[which + 1]):
            _met(v, state.needs, base, s.children[k], now, events)
        j = s.job[which]
        state.open_stages[j - first] -= 1
        if state.open_stages[j - first] == 0:
            heapq.heappush(events, (now + v.tail[j], _DONE, j))
    return 0.0


@nb.njit(cache=True, nogil=True)
def _job_changed(
    s: Any, v: Any, state: Any, event: Any, events: Any
) -> None:  # pragma: no cover - compiled
    """Note that a job began or ended."""
    now, what, which = event
    first = s.jobs[state.group]
    if what == _DONE:
        j = state.next_of[which - first, 0]
        while j >= 0:
            heapq.heappush(events, (now + v.delay[j], _JOB, j))
            j = state.next_of[j - first, 1]
        return
    for u in range(s.stages[which], s.stages[which + 1]):
        _met(v, state.needs, s.stages[first], u, now, events)
    if state.open_stages[which - first] == 0:
        heapq.heappush(events, (now + v.tail[which], _DONE, which))


@nb.njit(cache=True, nogil=True)
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
        k = begin + np.searchsorted(s.late_tasks[begin:end, 1], mine)
        if k < end and s.late_tasks[k, 1] == mine:
            number = stage * _WIDTH + s.late_tasks[k, 0] - s.first[stage]
            heapq.heappush(events, (now + s.late_delays[k], _LATE, number))
    if not same or s.flags[s.first[stage] + task] & WAITED:
        state.open_tasks[at] -= 1
        if state.open_tasks[at] == 0:
            heapq.heappush(events, (now, _ENDED, stage))


@nb.njit(cache=True, nogil=True)
def _dispatch(
    s: Any, v: Any, state: Any, now: float, events: Any, ready: Any
) -> None:  # pragma: no cover - compiled
    """Give a core to the next task."""
    base, stage = s.stages[s.jobs[state.group]], ready[0]
    task = state.following[stage - base]
    heapq.heappush(events, (now + _duration(s, v, stage, task), _TASK, stage * _WIDTH + task))
    state.following[stage - base] += 1
    if not _queued(s, v, state.following, base, stage):
        heapq.heappop(ready)


@nb.njit(cache=True, nogil=True)
def _met(
    v: Any, needs: Any, base: int, stage: int, now: float, events: Any
) -> None:  # pragma: no cover - compiled
    """Note that something that a stage waited for has begun or ended."""
    needs[stage - base] -= 1
    if needs[stage - base] == 0:
        heapq.heappush(events, (now + v.latency[stage], _READY, stage))


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
            heapq.heappush(events, (now + s.late_delays[k], _LATE, number))
    waited = 0
    for i in range(first, first + s.counts[stage]):
        waited += s.flags[i] & WAITED
    return waited


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def _same(s: Any, v: Any, stage: int) -> bool:  # pragma: no cover - compiled
    """Return whether a stage has as many tasks as it had."""
    return bool(v.place[stage] < 0 or v.counts[stage] == s.counts[stage])


@nb.njit(cache=True, nogil=True)
def _duration(s: Any, v: Any, stage: int, task: int) -> float:  # pragma: no cover - compiled
    if v.place[stage] < 0:
        return float(s.durations[s.first[stage] + task])
    return float(v.durations[v.place[stage] + task])
