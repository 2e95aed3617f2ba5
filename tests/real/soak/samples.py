"""What is measured in a soak, and whether it stays within bounds. Pure.

A quantity is *flat* if its slope is below a bound. The slope is that of Theil and Sen: the median of the slopes of all
pairs of points, which a few outliers do not move. Only the second half of a soak counts, and only pairs within one
process, each later than the warm-up of its process: a process that was killed and started anew says nothing about
growth. Where no process has lived for long enough, there is no slope, and the verdict says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

HOUR_S = 3_600.0
MOST_POINTS = 1_000
"""Of one process, evenly chosen: all their pairs are half a million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement."""

    at_s: float
    """Seconds since the beginning."""
    what: str
    """The quantity, such as "driver JVM: threads"."""
    of: str
    """The process, or whatever else has a life of its own."""
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a quantity may be. None = it may be anything."""

    most: float
    """Of any sample."""
    per_hour: float | None = None
    """Of the slope."""
    warm_up_s: float = 120.0
    """Points of a process younger than this, by its own first sample, do not count for the slope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which points count for a slope."""

    from_s: float
    """Earlier ones do not."""
    span_s: float = 300.0
    """Nor those of a process whose points, after its warm-up, do not cover as much time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a quantity."""

    what: str
    limit: Limit
    samples: int
    highest: float
    slope: float | None
    """Per hour; None if no process has lived for long enough."""
    span_s: float
    """Seconds that the slope rests on, of all processes together."""

    @property
    def judged(self) -> bool:
        """Whether there is a slope to compare, if one is bounded."""
        return self.limit.per_hour is None or self.slope is not None

    @property
    def good(self) -> bool:
        """Whether nothing that was measured exceeds its bound."""
        within = self.samples > 0 and self.highest <= self.limit.most
        return within and not self._steep

    @property
    def _steep(self) -> bool:
        return (
            self.slope is not None
            and self.limit.per_hour is not None
            and self.slope > self.limit.per_hour
        )

    def __str__(self) -> str:
        """One line."""
        bound = "" if self.limit.per_hour is None else f" (at most {self.limit.per_hour:,.0f})"
        slope = "no slope" if self.slope is None else f"{self.slope:+,.1f} per hour"
        over = "" if self.slope is None else f" over {self.span_s:,.0f} s"
        return (
            f"{'good' if self.good else 'BAD '} {self.what}: highest {self.highest:,.1f} of {self.limit.most:,.0f},"
            f" {slope}{bound}{over}, {self.samples} samples"
        )


def judge(samples: Iterable[Sample], limits: dict[str, Limit], rules: Rules) -> tuple[Verdict, ...]:
    """Return a verdict on each quantity that has a limit, in the order of `limits`."""
    found = defaultdict[str, list[Sample]](list)
    for sample in samples:
        found[sample.what].append(sample)
    return tuple(_verdict(what, limit, found[what], rules) for what, limit in limits.items())


def _verdict(what: str, limit: Limit, samples: Sequence[Sample], rules: Rules) -> Verdict:
    lives = defaultdict[str, list[Sample]](list)
    for sample in samples:
        lives[sample.of].append(sample)
    found = (_counted(life, rules, limit.warm_up_s) for life in lives.values())
    counted = [points for points in found if points is not None]
    return Verdict(
        what=what,
        limit=limit,
        samples=len(samples),
        highest=max((sample.value for sample in samples), default=float("nan")),
        slope=theil_sen(counted),
        span_s=sum(float(at[-1] - at[0]) for at, _ in counted),
    )


Points = tuple[np.ndarray, np.ndarray]
"""Seconds, in order, and values."""


def _counted(life: Sequence[Sample], rules: Rules, warm_up_s: float) -> Points | None:
    """Return the points of a process that count; None if they cover too little time."""
    ordered = sorted(life, key=lambda sample: sample.at_s)
    begin = max(rules.from_s, ordered[0].at_s + warm_up_s)
    late = [sample for sample in ordered if sample.at_s >= begin]
    if len(late) < 2 or late[-1].at_s - late[0].at_s < rules.span_s:
        return None
    chosen = np.unique(np.linspace(0, len(late) - 1, min(len(late), MOST_POINTS)).astype(int))
    return (
        np.array([late[place].at_s for place in chosen]),
        np.array([late[place].value for place in chosen]),
    )


def theil_sen(lives: Iterable[Points]) -> float | None:
    """Return the median slope per hour of all pairs of points within one life; None without pairs."""
    slopes = []
    for at, value in lives:
        one, other = np.triu_indices(len(at), k=1)
        apart = at[other] - at[one]
        apart_at_all = apart > 0
        slopes.append(((value[other] - value[one])[apart_at_all] / apart[apart_at_all]) * HOUR_S)
    together = np.concatenate(slopes) if slopes else np.array([])
    return float(np.median(together)) if len(together) else None
