"""What a task costs: a fixed time, and a time per row, fitted to the tasks of the last timesteps.

A task over n rows takes  fixed + per_row * n  milliseconds. The fixed part is why an operator of a micro-batch engine
does not scale linearly: with twice the tasks, it is paid twice. A rate per instance, as DS2 has it, mixes both; knowing
them apart makes one step of what would be two or three.

The fit is a regression by iteratively reweighted least squares: Huber's weights first, then Tukey's, for which a task
that was slow for another reason does not count. Tasks that take long vary in proportion: a residual is taken relative
to the time of its task if that is above the median. Both parts are at least 0. Tasks that received different numbers
of rows tell the two parts apart. Where all of them received about the same, any split explains what was measured, from
"all of it is fixed" to "all of it is per row": then the fit says what it can, and a decision carries both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rechannel.scaling.model.rates import Floats

ROUNDS = 6
"""Of reweighting."""
HUBER = 1.345
"""Standard deviations from which on a residual counts less, in the first half of the rounds."""
TUKEY = 4.685
"""Standard deviations from which on it does not count, in the second half. Both: 95 % efficient for normal errors."""
NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
ERRORS = 2.0
"""Standard errors on each side of an interval: about 95 %."""
LEAST_SAMPLES = 3
TINY_MS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCost:
    """Milliseconds of a task: a fixed part, and a part for each row. The limits belong together, end by end."""

    fixed_ms: float
    row_ms: float
    flat: tuple[float, float]
    """(fixed_ms, row_ms) at the end of the interval where most is fixed."""
    steep: tuple[float, float]
    """(fixed_ms, row_ms) at the end where least is fixed."""
    samples: int
    spread: float = 0.0
    """Standard deviation of the rows of the tasks over their mean: how well the two parts can be told apart."""

    def ms(self, rows: float) -> float:
        """Return what a task over a number of rows takes."""
        return self.fixed_ms + self.row_ms * rows

    @property
    def ends(self) -> tuple[TaskCost, TaskCost]:
        """The costs at the two ends of the interval."""
        return _exactly(*self.flat, self.samples), _exactly(*self.steep, self.samples)


def exact_cost(fixed_ms: float, row_ms: float) -> TaskCost:
    """Return a cost that is known."""
    return _exactly(fixed_ms, row_ms, 0)


def _exactly(fixed_ms: float, row_ms: float, samples: int) -> TaskCost:
    known = (fixed_ms, row_ms)
    return TaskCost(fixed_ms=fixed_ms, row_ms=row_ms, flat=known, steep=known, samples=samples)


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
