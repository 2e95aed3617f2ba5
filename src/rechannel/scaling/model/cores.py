"""The least number of cores under several suppositions at once: `timesteps.py` on arrays.

The formulas are those of `timesteps.py`. A supposition is one set of costs of all operators: the estimate, or one end
of its interval. What is asked of a number of cores is one figure, the share of the nearest bound that is used; it falls
with the cores, so the least number that uses at most 1 is found by trying powers of 4 and the neighbours of a first
guess, then those of a second guess where no number keeps the interval, and by cutting what is left into 16 parts until
one number is left. Where a guess is good, nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.scaling.model.optimal import SLACK
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.model.timesteps import NEGLIGIBLE_MS, Pace

Ints: TypeAlias = npt.NDArray[np.int_]

PARTS = 16
STEPS = np.arange(PARTS) / (PARTS - 1)
AROUND = np.arange(-3.0, 11.0)
"""Neighbours of the first guess that are tried with it."""
ALMOST = 1.05
"""If no number of cores keeps the interval: how near to the best a smaller one must come."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Taken:
    """What turns take with a number of tasks each, and which shares of their bounds they use."""

    tasks: Floats
    """Shape (..., operators)."""
    turns_ms: Floats
    """Shape (..., operators)."""
    longest: Floats
    """Share of the longest turn, shape (...)."""
    whole: Floats
    """Share of the timestep, shape (...)."""
    work: Floats
    """Share of the cores, shape (...)."""

    @property
    def used(self) -> Floats:
        """The largest of these shares."""
        most: Floats = np.maximum(np.maximum(self.longest, self.whole), self.work)
        return most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turns:
    """What operators have to do in every timestep, arrays that broadcast to shape (..., operators)."""

    rows: Floats
    """Rows of a timestep."""
    fixed_ms: Floats
    row_ms: Floats
    heaviest: Floats
    """Rows of the heaviest task over the mean of the tasks."""
    most_tasks: Floats
    rows_ms: Floats = field(init=False)
    """Milliseconds of cores for the rows of a timestep."""
    longest_ms: Floats = field(init=False)
    """The same if all tasks took as long as the heaviest."""

    def __post_init__(self) -> None:
        """Multiply what every number of tasks needs."""
        object.__setattr__(self, "rows_ms", self.rows * self.row_ms)
        object.__setattr__(self, "longest_ms", self.rows_ms * self.heaviest)

    def most_useful(self, pace: Pace) -> Floats:
        """Return the number of tasks from which on more make a turn longer, or cannot be had.

        On fewer cores than that, a turn is the shortest with a task for each.
        """
        work = self.longest_ms
        if pace.launch_ms < NEGLIGIBLE_MS:
            return np.where(work > 0, self.most_tasks, 1.0)
        best = np.sqrt(work / pace.launch_ms)
        fewer, more = np.maximum(np.floor(best), 1.0), np.maximum(np.ceil(best), 1.0)
        shorter = work / more + pace.launch_ms * more < work / fewer + pace.launch_ms * fewer
        return np.minimum(np.where(shorter, more, fewer), self.most_tasks)

    def took(self, pace: Pace, tasks: Floats, cores: Floats) -> Floats:
        """Return how long each turn takes, in milliseconds."""
        waves = np.ceil(tasks / cores)
        return waves * (self.fixed_ms + self.longest_ms / tasks) + pace.launch_ms * tasks

    def taken(self, pace: Pace, tasks: Floats, cores: Floats, turns_ms: Floats) -> Taken:
        """Return what a timestep uses of its bounds.

        cores: shape (..., 1). turns_ms: how long each turn takes.
        """
        room = pace.room_ms
        work = np.vecdot(tasks, self.fixed_ms) + self.rows_ms.sum(axis=-1)
        return Taken(
            tasks=tasks,
            turns_ms=turns_ms,
            longest=turns_ms.max(axis=-1) / room,
            whole=(pace.driver_ms + turns_ms.sum(axis=-1)) / (pace.in_flight * room),
            work=work / (room * cores[..., 0]),
        )

    def at_best(self, pace: Pace, cores: Floats) -> Taken:
        """Return what the shortest timestep uses of its bounds. cores: shape (..., 1)."""
        tasks = np.minimum(cores, self.most_useful(pace))
        # No more than a task for each core: each turn is one wave.
        turns_ms = self.fixed_ms + self.longest_ms / tasks + pace.launch_ms * tasks
        return self.taken(pace, tasks, cores, turns_ms)

    def spread_out(self) -> Turns:
        """Return the same with one more dimension before that of the operators."""
        return Turns(
            rows=self.rows[..., None, :],
            fixed_ms=self.fixed_ms[..., None, :],
            row_ms=self.row_ms[..., None, :],
            heaviest=self.heaviest[..., None, :],
            most_tasks=self.most_tasks[..., None, :],
        )


def least_cores_each(turns: Turns, pace: Pace, *, most: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return for each supposition the least cores that keep the interval, and whether any do.

    turns: of shape (suppositions, operators). Where none do, the least cores with which the nearest bound is exceeded
    by hardly more than with any number.
    """
    each = turns.spread_out()
    count = len(turns.fixed_ms)
    low, at = np.ones(count), np.arange(count)
    powers = 4.0 ** np.arange(most.bit_length() // 2 + 1)
    tried = np.empty((count, len(powers) + len(AROUND)))
    tried[:, : len(powers)] = powers
    tried[:, len(powers) :] = _guess(turns, pace, np.ones(count))[:, None] + AROUND
    tried = _between(tried, low, np.full(count, float(most)))
    used = each.at_best(pace, tried[:, :, None]).used
    keeps = used[:, -1] <= 1 + SLACK
    allowed = np.where(keeps, 1 + SLACK, used[:, -1] * ALMOST)
    guessed = bool(keeps.all())
    while True:
        enough = used <= allowed[:, None]
        enough[:, -1] = True
        first = enough.argmax(axis=1)
        low = np.where(first > 0, tried[at, np.maximum(first - 1, 0)] + 1, low)
        high = tried[at, first]
        if not (high > low).any():
            return high.astype(int), keeps
        if guessed:
            tried = np.floor(low[:, None] + (high - low)[:, None] * STEPS)
        else:
            tried, guessed = (
                _between(_guess(turns, pace, allowed)[:, None] + AROUND, low, high),
                True,
            )
        used = each.at_best(pace, tried[:, :, None]).used


def _between(tried: Floats, low: Floats, high: Floats) -> Floats:
    """Return numbers of cores in order, shape (suppositions, tried), the first and the last in place of two of them."""
    tried = np.minimum(np.maximum(tried, low[:, None]), high[:, None])
    tried[:, 0], tried[:, -1] = low, high
    tried.sort(axis=1)
    return tried


def _guess(turns: Turns, pace: Pace, share: Floats) -> Floats:
    """Return about the cores with which a timestep needs a share of its time, if operators have a task for each core.

    That solves  D + F + d m C + W / C = share k u T  for the smaller C, with F and W the fixed and other milliseconds
    of m operators. share: of each supposition, shape (suppositions,).
    """
    work = np.maximum(turns.longest_ms.sum(axis=-1), 1.0)
    fixed = turns.fixed_ms.sum(axis=-1)
    room = np.maximum(share * pace.in_flight * pace.room_ms - pace.driver_ms - fixed, 1.0)
    launches = max(pace.launch_ms, NEGLIGIBLE_MS) * turns.fixed_ms.shape[-1]
    root = np.sqrt(np.maximum(room**2 - 4 * launches * work, 0.0))
    busy = turns.rows_ms.sum(axis=-1) / np.maximum(share * pace.room_ms - fixed, 1.0)
    guess: Floats = np.ceil(np.maximum(2 * work / (room + root), busy))
    return guess
