"""What became of a stream that scales itself: steps, whether it keeps its rate, and what it has too much. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

KEPT = 0.99
"""Share of the rate that must be processed for it to be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How one run went."""

    path: tuple[int, ...]
    """Tasks that the main operator went through, without those that it began with."""
    changes: int
    """Of any operator."""
    rate: float
    """Records per second that were read after the last change, over those that arrived."""
    settled_s: float
    """Seconds from the first look at the sources to the end of the first timestep under the last plan."""
    last: int
    """Tasks of the main operator in the end."""

    @property
    def steps(self) -> int:
        """How often the main operator was given other tasks."""
        return len(self.path)

    @property
    def kept(self) -> bool:
        """Whether the rate is kept in the end."""
        return self.rate >= KEPT


def least_tasks(target: float, rate: float) -> int:
    """Return the least instances that keep a target, each of which processes `rate` records per second."""
    return math.ceil(target / rate * (1 - 1e-9))


def fits(tasks: int, least: int) -> bool:
    """Whether tasks are at most 1.05 times the least, or one more."""
    return least <= tasks <= max(least + 1, math.floor(1.05 * least))


def judged(timesteps: Sequence[Mapping[str, Any]], main: str, target: float) -> Judged:
    """Return how a run went.

    timesteps: in order, each with `looked_ms` (when it looked at its sources), `done_ms`, `rows` read of the sources
    and `tasks` by operator. main: the operator whose tasks count. target: rows per second that arrive at the sources.

    The rate is that between the ends of timesteps: from the first one to the last one under the last plan. The very
    first timestep of a stream is left out: it reads what is there at once, and ends before the others are late. Raises
    ValueError if there are fewer than three of these.
    """
    plans = [each["tasks"] for each in timesteps]
    changed = [n for n in range(1, len(plans)) if plans[n] != plans[n - 1]]
    first = changed[-1] if changed else 1
    under = timesteps[first:]
    if len(under) < 3:
        raise ValueError(f"{len(under)} timesteps ran under the last plan, too few to judge it")
    seconds = (under[-1]["done_ms"] - under[0]["done_ms"]) / 1e3
    path = [plan[main] for plan in plans]
    return Judged(
        path=tuple(after for before, after in pairwise(path) if before != after),
        changes=len(changed),
        rate=sum(each["rows"] for each in under[1:]) / seconds / target,
        settled_s=(under[0]["done_ms"] - timesteps[0]["looked_ms"]) / 1e3,
        last=path[-1],
    )
