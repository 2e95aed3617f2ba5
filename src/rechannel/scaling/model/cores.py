"""The least number of cores under several suppositions at once: `timesteps.py` on arrays.

The formulas are those of `timesteps.py`. A supposition is one set of costs of all operators: the estimate, or one end
of its interval. What is asked of a number of cores is one figure, the share of the nearest bound that is used; it falls
with the cores, so the least number that uses at most 1 is found by trying powers of 4 and the neighbours of a first
guess, then those of a second guess where no number keeps the interval, and by cutting what is left into 16 parts until
one number is left. Where a guess is good, nothing is.
"""

from __future__ import annotations

from dataclasses import dataclass
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
class Turns:
    """What operators have to do in every timestep, shape (..., operators)."""

    rows: Floats
    """Rows of a timestep."""
    fixed_ms: Floats
    row_ms: Floats
    heaviest: Floats
    """Rows of the heaviest task over the mean of the tasks."""
    most_tasks: Floats

    def took(self, pace: Pace, tasks: Floats, cores: Floats) -> Floats:
        """Return how long each turn takes, in milliseconds."""
        work = self.rows * self.row_ms * self.heaviest
        waves = np.ceil(tasks / cores)
        return waves * (self.fixed_ms + work / tasks) + pace.launch_ms * tasks

    def tasks(self, pace: Pace, cores: Floats) -> Floats:
        """Return the tasks of each operator with which its turn is the shortest."""
        most = np.minimum(cores, self.most_tasks)
        work = self.rows * self.row_ms * self.heaviest
        if pace.launch_ms < NEGLIGIBLE_MS:
            return np.where(work > 0, most, 1.0)
        best = np.sqrt(work / pace.launch_ms)
        fewer = np.minimum(np.maximum(np.floor(best), 1.0), most)
        more = np.minimum(np.maximum(np.ceil(best), 1.0), most)
        shorter = work / more + pace.launch_ms * more < work / fewer + pace.launch_ms * fewer
        tasks: Floats = np.where(shorter, more, fewer)
        return tasks

    def shares(self, pace: Pace, tasks: Floats, cores: Floats) -> tuple[Floats, Floats, Floats]:
        """Return which shares of their bounds the longest turn, the timestep and the cores use.

        cores: shape (..., 1).
        """
        took = self.took(pace, tasks, cores)
        room = pace.room_ms
        work = (tasks * self.fixed_ms + self.rows * self.row_ms).sum(axis=-1)
        return (
            took.max(axis=-1) / room,
            (pace.driver_ms + took.sum(axis=-1)) / (pace.in_flight * room),
            work / (room * cores[..., 0]),
        )

    def used(self, pace: Pace, cores: Floats) -> Floats:
        """Return the largest of these shares, with the best tasks."""
        most: Floats = np.maximum.reduce(self.shares(pace, self.tasks(pace, cores), cores))
        return most

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

    turns: shape (suppositions, operators). Where none do, the least cores with which the nearest bound is exceeded by
    hardly more than with any number.
    """
    each = turns.spread_out()
    count = len(turns.rows)
    low, at = np.ones(count), np.arange(count)
    powers = 4.0 ** np.arange(most.bit_length() // 2 + 1)
    tried = np.empty((count, len(powers) + len(AROUND)))
    tried[:, : len(powers)] = powers
    tried[:, len(powers) :] = _guess(turns, pace, np.ones(count))[:, None] + AROUND
    tried = _between(tried, low, np.full(count, float(most)))
    used = each.used(pace, tried[:, :, None])
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
        used = each.used(pace, tried[:, :, None])


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
    rows_ms = turns.rows * turns.row_ms
    work = np.maximum((rows_ms * turns.heaviest).sum(axis=-1), 1.0)
    fixed = turns.fixed_ms.sum(axis=-1)
    room = np.maximum(share * pace.in_flight * pace.room_ms - pace.driver_ms - fixed, 1.0)
    launches = max(pace.launch_ms, NEGLIGIBLE_MS) * turns.rows.shape[-1]
    root = np.sqrt(np.maximum(room**2 - 4 * launches * work, 0.0))
    busy = rows_ms.sum(axis=-1) / np.maximum(share * pace.room_ms - fixed, 1.0)
    guess: Floats = np.ceil(np.maximum(2 * work / (room + root), busy))
    return guess
