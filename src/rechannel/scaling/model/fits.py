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
    count, known = np.maximum(samples, 1), samples > 0
    if usable.all():
        mean_x = np.add.reduce(rows, axis=1) / count
        x, y = rows - mean_x[:, None], ms
    else:
        mean_x = np.where(usable, rows, 0.0).sum(axis=1) / count
        x, y = np.where(usable, rows - mean_x[:, None], 0.0), np.where(usable, ms, 0.0)
    differ = np.vecdot(x, x) / count > TINY_MS * mean_x**2
    medians = _Medians(usable, samples)
    level = np.where(known, medians.of(y), 0.0)
    line = _lines(x, y, usable, mean_x, level, medians)
    fitted = differ & (samples >= LEAST_SAMPLES) & ~line.lost
    centre_x, centre_y = line.centre_x, line.centre_y
    error = np.where(fitted, line.error, 0.0)
    half = np.maximum(centre_y, TINY_MS) / 2
    trust = half**2 / (half**2 + error**2)
    middle, error = line.intercept * trust, ERRORS * error * np.sqrt(trust)
    ends, most = np.array([middle, middle + error, middle - error]), centre_y
    if not fitted.all():
        # Without a line, nothing is fixed, or all that the shortest task took. Tasks without rows are all fixed.
        has_rows = mean_x > 0
        shortest = np.where(known, np.where(usable, ms, np.inf).min(axis=1), 0.0)
        least, highest = np.where(has_rows, 0.0, level), np.where(has_rows, shortest, level)
        ends = np.where(fitted, ends, [least, highest, least])
        most = np.where(fitted, most, highest)
        centre_x = np.where(fitted, centre_x, np.where(has_rows, mean_x, np.inf))
        centre_y = np.where(fitted, centre_y, level)
    fixed = np.minimum(np.maximum(ends, 0.0), most)
    row = np.maximum(centre_y - fixed, 0.0) / centre_x
    return Costs(fixed_ms=fixed, row_ms=row, known=known, samples=samples)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lines:
    """A line for each operator, all of shape (operators,)."""

    intercept: Floats
    error: Floats
    """Standard error of the intercept."""
    centre_x: Floats
    centre_y: Floats
    lost: Flags
    """Lines that cannot be fitted: the points that count have the same rows."""


def _lines(
    x: Floats, y: Floats, usable: Flags, mean_x: Floats, level: Floats, medians: _Medians
) -> _Lines:
    """Return the lines through points.

    x: less its mean over the points of each operator, mean_x. level: median of their y, 0 without any.
    """
    middle = np.where(level > 0, level, 1.0)[:, None]
    share = usable * middle / np.maximum(y, middle)
    weights = base = share * share
    moments = np.array([np.ones_like(x), x, y, x * x, x * y])
    lost = np.zeros(len(x), dtype=bool)
    for number in range(ROUNDS):
        sums = np.vecdot(moments, weights)
        total = np.maximum(sums[0], TINY_MS)
        centre_x, centre_y = centre = sums[1:3] / total
        squares, products = sums[3:] - sums[1] * centre
        same = squares <= TINY_MS * (centre_x + mean_x) ** 2
        if same.any():
            lost |= same
            squares[lost] = 1.0
        slope = products / squares
        intercept = centre_y - slope * centre_x
        residuals = np.abs(y - intercept[:, None] - slope[:, None] * x) * share
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
    return _Lines(
        intercept=centre_y - slope * centre_x,
        error=scale * np.sqrt(1 / total + centre_x**2 / squares),
        centre_x=centre_x,
        centre_y=centre_y,
        lost=lost,
    )


class _Medians:
    """Medians of each row's usable values."""

    def __init__(self, usable: Flags, samples: npt.NDArray[np.int_]) -> None:
        operators, points = usable.shape
        self._usable = None if usable.all() else usable
        self._middle = np.array(
            [np.maximum(samples - 1, 0) // 2, np.minimum(samples // 2, points - 1)]
        )
        self._middle += np.arange(operators) * points

    def of(self, values: Floats) -> Floats:
        """Return the medians; infinite for a row without usable values."""
        ordered = values.copy() if self._usable is None else np.where(self._usable, values, np.inf)
        ordered.sort(axis=1)
        lower, upper = ordered.take(self._middle)
        medians: Floats = (lower + upper) / 2
        return medians
