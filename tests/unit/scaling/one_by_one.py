"""The fit and the least cores for one operator or supposition at a time: twins of what the model does on arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

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
from rechannel.scaling.model.optimal import instances
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.model.timesteps import Fit, Pace, Turn, fit


def task_cost(rows: Floats, ms: Floats, *, fixed_ms: float | None = None) -> TaskCost | None:
    """Return the cost of tasks, from what each received and took; None if none took any time.

    rows, ms: shape (tasks,). fixed_ms: what is assumed to be fixed if the tasks do not tell; None = half-way between
    nothing and the shortest task.
    """
    usable = np.isfinite(rows) & np.isfinite(ms) & (rows >= 0) & (ms > 0)
    x, y = rows[usable], ms[usable]
    if not len(y):
        return None
    most, mean_x = float(y.min()), float(x.mean())
    spread = float(x.std()) / mean_x if mean_x else 0.0
    fitted = _line(x, y) if len(y) >= LEAST_SAMPLES and spread > 0 else None
    if fitted is None:
        centre = mean_x, float(np.median(y))
        middle = most / 2 if fixed_ms is None else fixed_ms
        low, high = 0.0, most
    else:
        middle, error, centre = fitted
        most = centre[1]
        low, high = middle - ERRORS * error, middle + ERRORS * error
        if fixed_ms is not None and high - low > most:
            middle = fixed_ms
    if mean_x == 0:
        middle = low = high = most = centre[1]

    def through(fixed: float) -> tuple[float, float]:
        """Return the line through the centre of the tasks that has this fixed part, or the nearest one possible."""
        part = min(max(fixed, 0.0), most)
        return part, max(0.0, (centre[1] - part) / centre[0]) if centre[0] else 0.0

    fixed, per_row = through(middle)
    return TaskCost(
        fixed_ms=fixed,
        row_ms=per_row,
        flat=through(max(high, fixed)),
        steep=through(min(low, fixed)),
        samples=len(y),
        spread=spread,
    )


def _line(x: Floats, y: Floats) -> tuple[float, float, tuple[float, float]] | None:
    """Return the intercept of a robust line, its standard error and the centre; None if the rows do not differ."""
    share = float(np.median(y)) / np.maximum(y, np.median(y))
    weights = base = share**2
    for number in range(ROUNDS):
        total = float(weights.sum())
        centre_x, centre_y = float((weights * x).sum()) / total, float((weights * y).sum()) / total
        apart = x - centre_x
        squares = float((weights * apart**2).sum())
        if squares <= TINY_MS * centre_x**2:
            return None
        slope = float((weights * apart * (y - centre_y)).sum()) / squares
        intercept = centre_y - slope * centre_x
        residuals = np.abs(y - intercept - slope * x) * share
        scale = max(NORMAL * float(np.median(residuals)), TINY_MS)
        error = scale * math.sqrt(1 / total + centre_x**2 / squares)
        far = residuals / scale
        if number < ROUNDS // 2:
            weights = base * np.minimum(1.0, HUBER / np.maximum(far, HUBER))
        else:
            weights = base * np.maximum(0.0, 1 - (far / TUKEY) ** 2) ** 2
    return intercept, error, (centre_x, centre_y)


def least_cores(turns: Mapping[str, Turn], pace: Pace, *, most: int = 100_000) -> Fit:
    """Return the least number of cores that keep the interval; the most cores, and `keeps` false, if none does."""
    low, high = 1, most
    if not fit(turns, pace, high).keeps:
        return fit(turns, pace, high)
    while low < high:
        middle = (low + high) // 2
        if fit(turns, pace, middle).keeps:
            high = middle
        else:
            low = middle + 1
    return fit(turns, pace, low)


def slots(turn: Turn, pace: Pace) -> int | None:
    """Return the least tasks that keep the interval where each has a core of its own; None if no number does."""
    room = pace.room_ms - turn.cost.fixed_ms
    work = turn.rate / 1e3 * pace.interval_ms * turn.cost.row_ms * turn.heaviest
    if room <= 0 and work:
        return None
    return instances(work / room) if work else 1
