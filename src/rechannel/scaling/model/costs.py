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

from dataclasses import dataclass

ROUNDS = 3
"""Of reweighting. With more, predictions are nearer only if a quarter of the points are outliers: half of those at a
quarter of the rows are 8.6 instead of 9.1 % off with 4 rounds, and 8.0 with 8."""
HUBER = 1.345
"""Standard deviations from which on a residual counts less, in the first round."""
TUKEY = 4.685
"""Standard deviations from which on it does not count, in the next ones. Both: 95 % efficient for normal errors."""
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


def exact_cost(fixed_ms: float, row_ms: float) -> TaskCost:
    """Return a cost that is known."""
    known = (fixed_ms, row_ms)
    return TaskCost(fixed_ms=fixed_ms, row_ms=row_ms, flat=known, steep=known, samples=0)
