"""Which executor should run which task, so that timesteps take less time. Pure.

An operator is done when its last executor is. For its tasks of this operator, an executor needs

    work * slowness / cores  +  bytes from tasks on other executors / bandwidth

and a timestep needs the sum over all operators. Starting from where tasks are, the search makes the one move of a task,
or the one exchange of two tasks of an operator, that saves most, and goes on until none saves anything. That is a
local optimum, and not always the best placement.

Where the tasks of an executor take longer per row than others, there are two explanations, and measurements under one
placement cannot tell which holds: the executor is slow, or these rows are expensive. Who asks says which to assume.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.control.library.attempt import Attempt
from rechannel.control.library.traffic import Traffic, together
from rechannel.model.buffers import IntArray
from rechannel.reconfigure.changes.together import MOST_CHANGES

MOST_TASKS = 64
"""Tasks above which nothing is decided: the time for the search grows with their square."""
MOST_STEPS = 32
"""Steps of the search."""
MOST_LOOKS = 20_000
"""Placements that it looks at, after its first step: the driver's process has other work."""
LEAST_MS = 1e-6
"""A smaller difference counts as zero."""

Places: TypeAlias = Mapping[str, tuple[str, ...]]
"""Executor of each task, by operator, shape (tasks,); "" = unknown."""

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Where tasks should run."""

    places: Places
    """Of the operators that have tasks to move, all of their tasks; other operators are absent."""
    now_ms: float
    """What the operators of a timestep need where tasks are now."""
    then_ms: float
    """What they will need."""

    @property
    def gain_ms(self) -> float:
        """By how much shorter a timestep will be."""
        return self.now_ms - self.then_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Placing:
    """What the controller knows."""

    samples: int = 0
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    """Sums over the samples."""
    places: Places = field(default_factory=dict)
    """Where tasks ran meanwhile."""
    assumed: int = 0
    """Index of the explanation that is assumed."""
    quiet: int = 0
    """Nothing is asked until this timestep."""
    attempt: Attempt | None = None
    """The placement that is not judged yet."""

    def sampled(
        self, replies: Mapping[str, Traffic], now: Mapping[str, Mapping[int, str]]
    ) -> Placing:
        """Return it with another sample, or without any if tasks ran elsewhere before. now: where they run now."""
        places = {n: tuple(at.get(t, "") for t in range(max(at) + 1)) for n, at in now.items()}
        if places != self.places:
            return replace(self, samples=0, traffic={}, places=places)
        return replace(self, samples=self.samples + 1, traffic=together(self.traffic, replies))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Tasks and executors as numbers."""

    tasks: list[tuple[str, int]]
    operator: IntArray
    """Of each task, shape (tasks,)."""
    at: IntArray
    """Executor of each task now, shape (tasks,)."""
    work: Floats
    """Milliseconds of each task on an executor of slowness 1, shape (tasks,)."""
    slowness: Floats
    """Of each executor, over its cores, shape (executors,)."""
    source: IntArray
    target: IntArray
    """Tasks at the ends of each channel, shape (channels,)."""
    travel: Floats
    """Milliseconds for the bytes of each channel between executors, shape (channels,)."""

    def cost(self, at: IntArray) -> tuple[float, float]:
        """Return the milliseconds of a timestep, and how unevenly they are spread, for placements of equal length."""
        needs = np.zeros((int(self.operator.max()) + 1, len(self.slowness)))
        np.add.at(needs, (self.operator, at), self.work * self.slowness[at])
        apart = at[self.source] != at[self.target]
        ends = self.target[apart]
        np.add.at(needs, (self.operator[ends], at[ends]), self.travel[apart])
        return float(needs.max(axis=1).sum()), float((needs**2).sum())

    def neighbours(self, at: IntArray) -> Iterator[IntArray]:
        """Yield the placements with one task moved, or two of an operator exchanged."""
        for task in range(len(at)):
            for executor in range(len(self.slowness)):
                if executor != at[task]:
                    moved = at.copy()
                    moved[task] = executor
                    yield moved
        for one, other in combinations(range(len(at)), 2):
            if self.operator[one] == self.operator[other] and at[one] != at[other]:
                moved = at.copy()
                moved[[one, other]] = at[[other, one]]
                yield moved

    def best(self) -> IntArray:
        """Return the placement at the end of the search."""
        at, cost, looks = self.at, self.cost(self.at), 0
        for _ in range(MOST_STEPS):
            looks += len(at) * (len(self.slowness) + len(at) // 2)
            found = min(self.neighbours(at), key=self.cost, default=at)
            new = self.cost(found)
            if not _less(new, cost):
                break
            at, cost = found, new
            if looks > MOST_LOOKS:
                break
        return at

    def least(self) -> float:
        """Return a lower bound of what a timestep can cost: work is spread without remainder, and nothing travels."""
        return float(np.bincount(self.operator, self.work).sum() / (1 / self.slowness).sum())


def _less(one: tuple[float, float], other: tuple[float, float]) -> bool:
    shorter = other[0] - one[0]
    return shorter > LEAST_MS or (shorter >= 0 and other[1] - one[1] > LEAST_MS)


def problem_of(
    known: Placing, executors: Mapping[str, int], *, slow_executors: bool, bytes_per_ms: float
) -> Problem | None:
    """Return what was measured as numbers; None without a task that is placed.

    executors: cores, by id. slow_executors: whether executors are slow, and not rows expensive.
    """
    places, timesteps = known.places, known.samples
    ids = {executor: number for number, executor in enumerate(executors)}
    loads = {
        (name, load.task): load
        for name, each in known.traffic.items()
        for load in each.tasks
        if _at(places, name, load.task) in ids
    }
    tasks = sorted(loads)
    if not tasks:
        return None
    number = {task: n for n, task in enumerate(tasks)}
    names = {name: n for n, name in enumerate(dict.fromkeys(name for name, _ in tasks))}
    channels = [
        (number[name, task], number[each], size / bytes_per_ms / timesteps)
        for each in tasks
        for name, task, size in loads[each].channels
        if (name, task) in number
    ]
    operator = np.array([names[name] for name, _ in tasks])
    at = np.array([ids[places[name][task]] for name, task in tasks])
    busy = np.array([loads[task].busy_ms for task in tasks]) / timesteps
    rows = np.array([loads[task].rows for task in tasks], dtype=np.float64)
    slowness = np.ones(len(ids))
    if slow_executors:
        slowness = _slowness(operator, at, busy, rows, len(ids))
    ends = np.array([(source, target) for source, target, _ in channels], dtype=np.int64)
    return Problem(
        tasks=tasks,
        operator=operator,
        at=at,
        work=busy / slowness[at],
        slowness=slowness / np.array([*executors.values()]),
        source=ends.reshape(-1, 2)[:, 0],
        target=ends.reshape(-1, 2)[:, 1],
        travel=np.array([travel for *_, travel in channels]),
    )


def _slowness(
    operator: IntArray, at: IntArray, busy: Floats, rows: Floats, executors: int
) -> Floats:
    """Return what tasks of each executor take over what their rows take on average; 1 for one without tasks."""
    per_row = np.bincount(operator, busy) / np.maximum(np.bincount(operator, rows), 1)
    usual = np.bincount(at, per_row[operator] * rows, executors)
    took = np.bincount(at, busy, executors)
    return np.where((usual > 0) & (took > 0), took / np.maximum(usual, LEAST_MS), 1.0)


def _at(places: Places, operator: str, task: int) -> str:
    at = places.get(operator, ())
    return at[task] if task < len(at) else ""


def decided(
    known: Placing,
    executors: Mapping[str, int],
    *,
    slow_executors: bool,
    bytes_per_ms: float,
    least_ms: float = LEAST_MS,
) -> Decision | None:
    """Return where tasks should run; None if that saves less than `least_ms`, or there are too many tasks.

    The others: see `problem_of`.
    """
    problem = problem_of(known, executors, slow_executors=slow_executors, bytes_per_ms=bytes_per_ms)
    if problem is None or len(problem.tasks) > MOST_TASKS:
        return None
    now_ms, _ = problem.cost(problem.at)
    if now_ms - problem.least() < least_ms:
        return None
    best, ids = problem.best(), list(executors)
    changed = {problem.tasks[n][0] for n in np.flatnonzero(best != problem.at)}
    chosen = {task: ids[at] for task, at in zip(problem.tasks, best.tolist(), strict=True)}
    places = {
        name: tuple(chosen.get((name, task), at) for task, at in enumerate(known.places[name]))
        for name in sorted(changed)
    }
    if not 0 < sum(map(len, places.values())) <= MOST_CHANGES:
        return None
    found = Decision(places=places, now_ms=now_ms, then_ms=problem.cost(best)[0])
    return found if found.gain_ms >= least_ms else None
