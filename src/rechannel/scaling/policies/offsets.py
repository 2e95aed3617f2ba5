"""How much longer timesteps take than the model says, for reasons that no task reports. Pure.

Measured over predicted milliseconds of a timestep, the median over the last comparisons: DS2's correction by target
over achieved rate. Windows are put together until they have `LEAST_TIMESTEPS`, as some of the rows of a window are
those of timesteps that end after it. In a window after a change, some timesteps still ran with what was there before,
and would say nothing of the model: it is left out, with what was put together before it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rechannel.scaling.policies.policy import Cores, Seen

REMEMBERED = 6
"""Comparisons that count."""
LEAST_TIMESTEPS = 5
"""Of one comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The last comparisons, and the timesteps of the next, all with the same tasks and executors."""

    ratios: tuple[float, ...] = ()
    """Measured over predicted time, oldest first."""
    plan: tuple[Mapping[str, int], int] | None = None
    """Tasks by operator and executors, in the last window."""
    timesteps: int = 0
    took_ms: float = 0.0
    rows: Mapping[str, float] = field(default_factory=dict)
    """Rows of these timesteps, by operator."""

    @property
    def offset(self) -> float:
        """By how much the model is to be multiplied."""
        return statistics.median(self.ratios) if self.ratios else 1.0

    def with_window(self, seen: Seen, cores: Cores, received: Mapping[str, float]) -> Offsets:
        """Return it with the timesteps of one more window. received: rows, by operator."""
        plan = seen.parallelism, cores.executors
        if self.plan not in (None, plan):
            return Offsets(ratios=self.ratios, plan=plan)
        return Offsets(
            ratios=self.ratios,
            plan=plan,
            timesteps=self.timesteps + len(cores.durations_ms),
            took_ms=self.took_ms + sum(cores.durations_ms),
            rows={name: rows + self.rows.get(name, 0.0) for name, rows in received.items()},
        )

    def compared(self, predict: Callable[[Mapping[str, float]], float], most: float) -> Offsets:
        """Return it with one more comparison, if there are enough timesteps.

        predict: milliseconds of a timestep over the given rows of each operator. most: largest ratio; the least is 1.
        """
        if self.timesteps < LEAST_TIMESTEPS:
            return self
        predicted = predict({name: rows / self.timesteps for name, rows in self.rows.items()})
        ratios = self.ratios
        if predicted > 0:
            ratios = (*ratios, min(max(self.took_ms / self.timesteps / predicted, 1.0), most))
        return Offsets(ratios=ratios[-REMEMBERED:], plan=self.plan)
