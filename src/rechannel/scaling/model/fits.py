"""What the tasks of many operators cost, fitted at once, on arrays with one row per operator.

`costs.py` says what the line is. The loop over operators is numpy's, so that an evaluation of 20 operators stays below
a millisecond. The answer for each operator has three columns, as its interval has: the estimate, the end where
most is fixed (flat), and the end where least is (steep).

Tasks whose rows hardly differ make the fixed part of the line a matter of chance. Then DS2's assumption holds, that
nothing is fixed, and one step may become two. Between both, the better known counts more: with e the standard error of
the line's fixed part f, and half of what a task can have fixed as that of the assumption, s, the estimate is
f s^2 / (s^2 + e^2), and its standard error e s / sqrt(s^2 + e^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.scaling.model.costs import (
    ERRORS,
    HUBER,
    LEAST_SAMPLES,
    NORMAL,
    ROUNDS,
    TINY_MS,
    TUKEY,
    TaskCost,
)
from rechannel.scaling.model.rates import Floats

Flags: TypeAlias = npt.NDArray[np.bool_]

ESTIMATE, FLAT, STEEP = range(3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Costs:
    """Milliseconds of the tasks of several operators, shape (3, operators): estimate, flat end, steep end."""

    fixed_ms: Floats
    row_ms: Floats
    known: Flags
    """Whether an operator had any tasks, shape (operators,); without, its costs are 0."""
    samples: npt.NDArray[np.int_]
    """Points of each operator, shape (operators,)."""

    def of(self, operator: int) -> TaskCost:
        """Return the cost of one operator."""
        ends = [
            (float(self.fixed_ms[end, operator]), float(self.row_ms[end, operator]))
            for end in range(3)
        ]
        return TaskCost(
            fixed_ms=ends[ESTIMATE][0],
            row_ms=ends[ESTIMATE][1],
            flat=ends[FLAT],
            steep=ends[STEEP],
            samples=int(self.samples[operator]),
        )


def task_costs(rows: Floats, ms: Floats, there: Flags) -> Costs:
    """Return the costs of tasks, from what each received and took.

    rows, ms, there: shape (operators, points); only points that are `there` count, and only those that took any time.
    """
    usable = there & (ms > 0) & (rows >= 0)
    samples = usable.sum(axis=1)
    known = samples > 0
    count = np.maximum(samples, 1)
    x, y = np.where(usable, rows, 0.0), np.where(usable, ms, 0.0)
    mean_x = x.sum(axis=1) / count
    shortest = np.where(known, np.where(usable, ms, np.inf).min(axis=1), 0.0)
    apart = (x - mean_x[:, None]) * usable
    differ = np.vecdot(apart, apart) / count > TINY_MS * mean_x**2
    medians = _Medians(usable, samples)
    intercept, error, centre_x, centre_y, lost = _lines(x, y, usable, medians)
    fitted = known & differ & (samples >= LEAST_SAMPLES) & ~lost
    error = np.where(fitted, error, 0.0)
    half = np.maximum(centre_y, TINY_MS) / 2
    trust = half**2 / (half**2 + error**2)
    level = np.where(known, medians.of(y), 0.0)
    centre_x, centre_y = np.where(fitted, centre_x, mean_x), np.where(fitted, centre_y, level)
    most = np.where(fitted, centre_y, shortest)
    middle = np.where(fitted, intercept * trust, 0.0)
    error = ERRORS * error * np.sqrt(trust)
    low = np.where(fitted, middle - error, 0.0)
    high = np.where(fitted, middle + error, shortest)
    empty = mean_x == 0
    middle, low, high, most = (np.where(empty, centre_y, a) for a in (middle, low, high, most))
    fixed = np.stack([middle, np.maximum(high, middle), np.minimum(low, middle)])
    fixed = np.clip(fixed, 0.0, most)
    row = np.maximum(centre_y - fixed, 0.0) / np.where(empty, np.inf, centre_x)
    return Costs(fixed_ms=fixed, row_ms=row, known=known, samples=samples)


def _lines(
    x: Floats, y: Floats, usable: Flags, medians: _Medians
) -> tuple[Floats, Floats, Floats, Floats, Flags]:
    """Return intercepts, their standard errors, centres, and where there is no line."""
    middle = medians.of(y)[:, None]
    middle[~np.isfinite(middle)] = 1.0
    share = usable * middle / np.maximum(y, middle)
    weights = base = share * share
    mean_x = x.mean(axis=1)
    x = x - mean_x[:, None]
    moments = np.stack([np.ones_like(x), x, y, x * x, x * y], axis=1)
    lost = np.zeros(len(x), dtype=bool)
    for number in range(ROUNDS):
        sums = np.matmul(moments, weights[:, :, None])[:, :, 0].T
        total = np.maximum(sums[0], TINY_MS)
        centre_x, centre_y = sums[1] / total, sums[2] / total
        squares = sums[3] - sums[1] * centre_x
        lost |= squares <= TINY_MS * (centre_x + mean_x) ** 2
        squares[lost] = 1.0
        slope = (sums[4] - sums[1] * centre_y) / squares
        apart = centre_y - slope * centre_x
        residuals = np.abs(y - apart[:, None] - slope[:, None] * x) * share
        scale = np.maximum(NORMAL * medians.of(residuals), TINY_MS)
        if number == ROUNDS - 1:
            break
        if number < ROUNDS // 2:
            far = residuals / (HUBER * scale)[:, None]
            weights = base / np.maximum(far, 1.0)
        else:
            far = residuals / (TUKEY * scale)[:, None]
            weights = base * np.maximum(0.0, 1 - far * far) ** 2
    centre_x = centre_x + mean_x
    error = scale * np.sqrt(1 / total + centre_x**2 / squares)
    return centre_y - slope * centre_x, error, centre_x, centre_y, lost


class _Medians:
    """Medians of each row's usable values."""

    def __init__(self, usable: Flags, samples: npt.NDArray[np.int_]) -> None:
        self._unusable = None if usable.all() else ~usable
        begins = np.arange(len(usable)) * usable.shape[1]
        self._lower = begins + np.maximum(samples - 1, 0) // 2
        self._upper = begins + np.minimum(samples // 2, usable.shape[1] - 1)

    def of(self, values: Floats) -> Floats:
        """Return the medians; infinite for a row without usable values."""
        ordered = values.copy()
        if self._unusable is not None:
            ordered[self._unusable] = np.inf
        ordered.sort(axis=1)
        flat = ordered.ravel()
        medians: Floats = (flat[self._lower] + flat[self._upper]) / 2
        return medians
