"""Schedules to replay, made from lists, and a replay that is too simple to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from rechannel.profiling.diagnosis.schedule import WAITED, Schedule, Variant, unchanged


@dataclass(slots=True)
class PlainStage:
    """A stage of a plain schedule, ms."""

    tasks: Sequence[float]
    parents: Sequence[int] = ()
    """Indices of stages of the same job."""
    latency: float = 0.0


@dataclass(slots=True)
class PlainJob:
    """A job of a plain schedule, ms."""

    stages: Sequence[PlainStage]
    after: int = -1
    delay: float = 0.0
    tail: float = 0.0


@dataclass(slots=True)
class PlainGroup:
    """A group of jobs on a number of cores."""

    jobs: Sequence[PlainJob] = field(default_factory=list)
    cores: float = 2


def scheduled(group: PlainGroup) -> Schedule:
    """The schedule of one group without retries."""
    stages = [stage for job in group.jobs for stage in job.stages]
    firsts = np.cumsum([0, *(len(job.stages) for job in group.jobs)], dtype=np.int64)
    pairs = sorted(
        (int(firsts[j]) + parent, int(firsts[j]) + u)
        for j, job in enumerate(group.jobs)
        for u, stage in enumerate(job.stages)
        for parent in stage.parents
    )
    counts = np.array([len(stage.tasks) for stage in stages], dtype=np.int64)
    durations = np.array([task for stage in stages for task in stage.tasks], dtype=np.float32)
    every = np.arange(len(stages) + 1)
    return Schedule(
        jobs=np.array([0, len(group.jobs)], dtype=np.int64),
        stages=firsts,
        job=np.repeat(np.arange(len(group.jobs)), np.diff(firsts)),
        first=np.cumsum(counts) - counts,
        counts=counts,
        durations=durations,
        flags=np.full(len(durations), WAITED, dtype=np.uint8),
        latency=np.array([stage.latency for stage in stages], dtype=np.float64),
        child=np.searchsorted([parent for parent, _ in pairs], every).astype(np.int64),
        children=np.array([child for _, child in pairs], dtype=np.int64),
        parents=np.array([len(stage.parents) for stage in stages], dtype=np.int64),
        after=np.array([job.after for job in group.jobs], dtype=np.int64),
        delay=np.array([job.delay for job in group.jobs], dtype=np.float64),
        tail=np.array([job.tail for job in group.jobs], dtype=np.float64),
        late=np.zeros(len(stages) + 1, dtype=np.int64),
        late_tasks=np.empty((0, 2), dtype=np.int64),
        late_delays=np.empty(0),
        step=np.array([0, 1], dtype=np.int64),
        steps=np.array([[0.0, group.cores]]),
    )


def variant(schedule: Schedule, *, cores: float = 1.0, **tasks: Sequence[float]) -> Variant:
    """A variant with another factor on cores, and other tasks for some stages: s0=[1.0, 2.0]."""
    same = unchanged(schedule)
    place, counts, durations = same.place.copy(), same.counts.copy(), list[float]()
    for name, took in tasks.items():
        place[int(name[1:])], counts[int(name[1:])] = len(durations), len(took)
        durations += took
    return same._replace(
        place=place, counts=counts, durations=np.array(durations, dtype=np.float32), cores=cores
    )


def simulated(group: PlainGroup, step: float = 1.0) -> float:
    """Length of a group whose times are multiples of a step: moves on step by step."""
    now, done_jobs = 0.0, dict[int, float]()
    begun, ready, ended = (
        dict[int, float](),
        dict[tuple[int, int], float](),
        dict[tuple[int, int], float](),
    )
    running: list[tuple[float, int, int]] = []
    left = {
        (j, u): list(s.tasks) for j, job in enumerate(group.jobs) for u, s in enumerate(job.stages)
    }
    while len(done_jobs) < len(group.jobs) or max(done_jobs.values()) > now:
        moved = True
        while moved:
            moved = False
            for j, job in enumerate(group.jobs):
                start = job.delay if job.after < 0 else done_jobs.get(job.after, inf) + job.delay
                if j not in begun and start <= now:
                    begun[j], moved = start, True
                for u, stage in enumerate(job.stages):
                    if (
                        j in begun
                        and (j, u) not in ready
                        and all((j, p) in ended for p in stage.parents)
                    ):
                        last = max([begun[j], *(ended[j, p] for p in stage.parents)])
                        ready[j, u], moved = last + stage.latency, True
                    over = not left[j, u] and not any(one[1:] == (j, u) for one in running)
                    if (j, u) in ready and ready[j, u] <= now and over and (j, u) not in ended:
                        ended[j, u], moved = now, True
                stages = [(j, u) for u in range(len(job.stages))]
                if j in begun and j not in done_jobs and all(one in ended for one in stages):
                    last = max([begun[j], *(ended[one] for one in stages)])
                    done_jobs[j], moved = last + job.tail, True
        for one in sorted(ready):
            while ready[one] <= now and left[one] and len(running) < max(1, int(group.cores)):
                running.append((now + left[one].pop(0), *one))
        now += step
        running = [one for one in running if one[0] > now]
    return max(done_jobs.values())
