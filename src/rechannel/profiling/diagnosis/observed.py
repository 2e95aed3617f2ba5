"""What happened in an application, as a schedule that can be replayed: what waited for what, and for how long.

Jobs that overlap are a group. Everything between two groups is the driver's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rechannel.profiling.diagnosis.capacity import Capacity
from rechannel.profiling.diagnosis.late import late_tasks
from rechannel.profiling.diagnosis.schedule import Floats, Ints, Schedule
from rechannel.profiling.diagnosis.task_table import KILLED, StageKey, TaskTable, pieces
from rechannel.profiling.spark.application import Application, Job

Spans = npt.NDArray[np.float64]
"""Starts and ends, Unix ms. Shape (spans, 2)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """A schedule, and when its parts were observed."""

    schedule: Schedule
    place: dict[StageKey, int]
    """Where a stage is in the schedule."""
    of_table: Ints
    """Where the stages of the schedule are in the table of tasks."""
    numbers: Sequence[int]
    """Numbers of the jobs in the schedule; negative ones are not in the log."""
    groups: Spans
    active: Spans
    """First launch and last end of the stages in the table of tasks."""
    capacity: Capacity


@dataclass(slots=True, eq=False)
class _Job:
    """A job, with the stages that it ran."""

    number: int
    start: int
    end: int
    of: tuple[object, ...] = ()
    """What it belongs to: an execution or a stream."""
    stages: list[int] = field(default_factory=list)
    """Indices in the table of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stages:
    """Times of the stages in the table, Unix ms."""

    submitted: Ints
    begin: Ints
    """The first launch."""
    end: Ints
    """The last finish that something waited for."""


def observed(app: Application, table: TaskTable) -> Observed:
    """Return the schedule of an application."""
    times = _stages(app, table)
    jobs = _jobs(app, table, times)
    groups = _grouped(jobs)
    ordered = [job for group in groups for job in sorted(group, key=lambda job: job.number)]
    of_table = np.array([stage for job in ordered for stage in job.stages], dtype=np.int64)
    firsts = _offsets(len(job.stages) for job in ordered)
    job_of = np.repeat(np.arange(len(ordered)), np.diff(firsts))
    bounds = _offsets(len(group) for group in groups)
    spans = np.array(
        [(group[0].start, max(job.end for job in group)) for group in groups], dtype=np.float64
    ).reshape(-1, 2)
    capacity = Capacity.of(app, table)
    after, delays = _delays(ordered, bounds, spans)
    group_of = np.repeat(np.arange(len(groups)), np.diff(bounds))[job_of]
    pairs = _pairs(app, table, times, of_table, group_of)
    latencies = _latencies(times, of_table, group_of, pairs, capacity)
    starts = np.array([job.start for job in ordered], dtype=np.float64)[job_of]
    latencies[:, 0] = np.maximum(latencies[:, 0], starts)
    latencies[:, 1] = np.maximum(latencies[:, 1], latencies[:, 0])
    tails = [
        max(0, job.end - max((int(times.end[s]) for s in job.stages), default=job.start))
        for job in ordered
    ]
    flags, late, tasks, late_delays = late_tasks(app, table, of_table)
    step, steps = capacity.steps(spans)
    child, children, parents = _children(pairs, len(of_table))
    return Observed(
        schedule=Schedule(
            jobs=bounds,
            stages=firsts,
            job=job_of,
            first=table.first[of_table],
            counts=table.first[of_table + 1] - table.first[of_table],
            durations=table.durations,
            flags=flags,
            latency=latencies[:, 1] - latencies[:, 0],
            child=child,
            children=children,
            parents=parents,
            after=after,
            delay=delays,
            tail=np.array(tails, dtype=np.float64),
            late=late,
            late_tasks=tasks,
            late_delays=late_delays,
            step=step,
            steps=steps,
        ),
        place={table.stages[stage]: i for i, stage in enumerate(of_table.tolist())},
        of_table=of_table,
        numbers=[job.number for job in ordered],
        groups=spans,
        active=np.column_stack([times.begin, times.end]).astype(np.float64),
        capacity=capacity,
    )


def _offsets(counts: Iterable[int]) -> Ints:
    found: Ints = np.cumsum([0, *counts], dtype=np.int64)
    return found


def _stages(app: Application, table: TaskTable) -> _Stages:
    """Return when stages were submitted, when they began and when they ended."""
    begin = table.launch[table.first[:-1]]
    end = _ends(table)
    submitted = begin.copy()
    for i, key in enumerate(table.stages):
        stage = app.stages.get(key)
        if stage is not None and stage.submitted:
            submitted[i] = min(stage.submitted, begin[i])
    return _Stages(submitted=submitted, begin=begin, end=end)


def _ends(table: TaskTable) -> Ints:
    """Return the last finish of each stage that something waited for; of any task if nothing did."""
    found = np.zeros(len(table.stages), dtype=np.int64)
    for begin, end in pieces(table.first):
        part = slice(int(table.first[begin]), int(table.first[end]))
        finish = table.launch[part] + np.rint(table.durations[part]).astype(np.int64)
        waited = np.where(table.flags[part] & KILLED, 0, finish)
        firsts = table.first[begin:end] - part.start
        last = np.maximum.reduceat(waited, firsts)
        found[begin:end] = np.where(last > 0, last, np.maximum.reduceat(finish, firsts))
    return found


def _jobs(app: Application, table: TaskTable, times: _Stages) -> list[_Job]:
    """Return jobs with the stages that they ran. A stage of no known job is one of its own."""
    made = {
        job.number: _Job(job.number, job.start, max(job.start, job.end), _belongs(job))
        for job in app.jobs.values()
    }
    owners: dict[int, list[_Job]] = {}
    for job in app.jobs.values():
        for number in job.stages:
            owners.setdefault(number, []).append(made[job.number])
    ended = {job.number for job in app.jobs.values() if job.end}
    for i, (number, _) in enumerate(table.stages):
        begun = int(times.submitted[i])
        known = owners.get(number, [])
        inside = [one for one in known if one.start <= begun <= (one.end or begun)]
        owner = inside[-1] if inside else known[0] if known else None
        if owner is None:
            owner = made[-1 - i] = _Job(-1 - i, begun, int(times.end[i]))
        owner.stages.append(i)
        if owner.number not in ended:
            owner.end = max(owner.end, int(times.end[i]))
    return list(made.values())


def _belongs(job: Job) -> tuple[object, ...]:
    if job.execution is not None:
        return ("execution", job.execution)
    return ("query", job.query) if job.query else ()


def _grouped(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Return jobs that overlap in groups, by time."""
    groups: list[list[_Job]] = []
    end = 0
    for job in sorted(jobs, key=lambda job: (job.start, job.number)):
        if groups and job.start < end:
            groups[-1].append(job)
        else:
            groups.append([job])
        end = max(end, job.end)
    return groups


def _delays(jobs: Sequence[_Job], bounds: Ints, groups: Spans) -> tuple[Ints, Floats]:
    """Return the job that each one waits for, and the time between, ms."""
    after = np.full(len(jobs), -1, dtype=np.int64)
    delays = np.zeros(len(jobs))
    for g, (first, last) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        ending = sorted(range(first, last), key=lambda j: (jobs[j].end, jobs[j].start))
        done, latest, latest_of = 0, -1, dict[tuple[object, ...], int]()
        for j in sorted(range(first, last), key=lambda j: (jobs[j].start, jobs[j].end)):
            start = jobs[j].start
            # Of a job without duration, nothing is known to wait for it.
            while jobs[ending[done]].end <= start and jobs[ending[done]].start < start:
                latest = ending[done]
                latest_of[jobs[latest].of] = latest
                done += 1
            after[j] = latest_of.get(jobs[j].of, latest) if jobs[j].of else latest
            known = jobs[int(after[j])].end if after[j] >= 0 else groups[g, 0]
            delays[j] = start - known
    return after, delays


def _pairs(
    app: Application, table: TaskTable, times: _Stages, of_table: Ints, group_of: Ints
) -> Ints:
    """Return parents and their children in the same group. Shape (pairs, 2).

    A stage waited for its parents, as far as they ended before it was submitted. A second attempt
    waited for all that had ended, too: what failed before it is one of these.
    """
    ends, submitted = times.end[of_table].tolist(), times.submitted[of_table].tolist()
    groups, keys = group_of.tolist(), [table.stages[i] for i in of_table.tolist()]
    members: dict[tuple[int, int], list[int]] = {}
    for u, (number, _) in enumerate(keys):
        members.setdefault((groups[u], number), []).append(u)
    ended: dict[int, list[tuple[int, int]]] = {}
    for u in np.argsort(times.end[of_table], kind="stable").tolist():
        ended.setdefault(groups[u], []).append((ends[u], u))
    found: list[tuple[int, int]] = []
    for u, key in enumerate(keys):
        stage = app.stages.get(key)
        parents = [] if stage is None else [(groups[u], parent) for parent in stage.parents]
        waited = {p for parent in parents for p in members.get(parent, ())}
        if key[1]:
            before = ended[groups[u]][: bisect_right(ended[groups[u]], (submitted[u], len(keys)))]
            waited.update(p for _, p in before[-1:])
        order = (submitted[u], u)
        found += [(p, u) for p in waited if ends[p] <= submitted[u] and (submitted[p], p) < order]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _latencies(
    times: _Stages, of_table: Ints, group_of: Ints, pairs: Ints, capacity: Capacity
) -> Spans:
    """Return the time from what a stage waits for to its start, by stage.

    A stage starts when it is submitted, if other stages may have occupied the cores; otherwise with
    its first task, as soon as there is an executor.
    """
    found = np.zeros((len(of_table), 2))
    np.maximum.at(found[:, 0], pairs[:, 1], times.end[of_table][pairs[:, 0]].astype(np.float64))
    submitted, begin, end = (
        values[of_table] for values in (times.submitted, times.begin, times.end)
    )
    found[:, 1] = submitted
    latest: dict[int, int] = {}
    for u in np.lexsort((submitted, group_of)).tolist():
        group, at = int(group_of[u]), int(submitted[u])
        if latest.get(group, 0) <= at and begin[u] > capacity.first:
            found[u, 1] = max(at, int(begin[u]) - max(0.0, capacity.first - at))
        latest[group] = max(latest.get(group, 0), int(end[u]))
    return found


def _children(pairs: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Return the children of every stage, and the numbers of parents."""
    order = np.argsort(pairs[:, 0], kind="stable")
    child = np.searchsorted(pairs[order, 0], np.arange(count + 1)).astype(np.int64)
    parents = np.bincount(pairs[:, 1], minlength=count).astype(np.int64)
    return child, pairs[order, 1].copy(), parents
