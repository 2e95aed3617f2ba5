"""What a timestep takes on other numbers of cores, from the figures of the policy for timesteps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rechannel.scaling.model.costs import exact_cost
from rechannel.scaling.model.timesteps import Pace, Turn, fit
from rechannel.scaling.needs.values import CurvePoint

MOST_TASKS = 1_000_000
MOST_POINTS = 40
BEYOND = 2
"""How many times more cores than are advised are shown."""


def curve(
    figures: Mapping[str, Mapping[str, Any]], most_tasks: Mapping[str, int], pace: Pace, cores: int
) -> tuple[CurvePoint, ...]:
    """Return the shortest timesteps on one core up to `BEYOND` times a number of cores.

    figures: by operator, those of the policy `ds2-timesteps`. most_tasks: into how many an operator can be divided.
    """
    ends = [_turns(figures, most_tasks, end) for end in (None, 0, 1)]
    made = []
    for count in counts(BEYOND * cores):
        best, *others = [fit(turns, pace, count) for turns in ends]
        times = [each.timestep_ms for each in (best, *others)]
        made.append(
            CurvePoint(
                cores=count,
                timestep_ms=best.timestep_ms,
                low_ms=min(times),
                high_ms=max(times),
                keeps=best.keeps,
            )
        )
    return tuple(made)


def counts(most: int) -> list[int]:
    """Return the numbers of cores from 1 on: all, or if they are many, at equal ratios."""
    most = max(2, most)
    if most <= MOST_POINTS:
        return list(range(1, most + 1))
    ratio = most ** (1 / (MOST_POINTS - 1))
    return sorted({round(ratio**step) for step in range(MOST_POINTS)})


def _turns(
    figures: Mapping[str, Mapping[str, Any]], most_tasks: Mapping[str, int], end: int | None
) -> dict[str, Turn]:
    """Return the turns of operators. end: of the interval of their costs; None = as fitted."""
    made = {}
    for name, of in figures.items():
        fixed, row = of["fixed_ms"], of["row_ms"]
        if end is not None:
            fixed, row = of["fixed_ms_ends"][end], of["row_ms_ends"][end]
        made[name] = Turn(
            rate=of["target_per_s"],
            cost=exact_cost(fixed, row),
            heaviest=of["heaviest_after"],
            most_tasks=most_tasks.get(name, MOST_TASKS),
        )
    return made
