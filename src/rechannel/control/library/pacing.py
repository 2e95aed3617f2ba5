"""Which interval between timesteps sustains the input. Pure.

A timestep over `rows` rows takes a + b * rows milliseconds, and `rate` rows arrive per millisecond. With an interval I
it is busy for the share a/I + b * rate of its interval. The shortest interval that keeps this share at `share` is

    a / (share - b * rate)

a and b are fitted to what timesteps of different sizes took (Das et al., SoCC'14, find this point by iteration). The
interval stays where it is while the busy share is in a dead band around its target, so measurements that vary do not
make it oscillate. It grows by at most a factor of 4 at once, and what it shrinks by is damped. Once a load has lasted
for some timesteps, the dead band is wider: the interval changes if timesteps no longer fit into it, or if it could be
half as long. So neither a stream that gets faster while it warms up nor a few slow timesteps move it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

SIZES = math.log(1.25)
"""Timesteps whose rows differ by less than this, as a logarithm, count as of one size."""
SIZES_KEPT = 12
MOST_UNLIKE = 1.5
"""A single timestep that takes several times as long counts as this many times as long."""
APART = 2.0
"""How many times larger the largest size has to be than the smallest to tell a from b."""
ABOVE, BELOW = 0.5, 0.15
"""The dead band around the target of the busy share: above it as a share of what is left, below it absolute."""
AROUND = 1.25
"""The dead band around an interval that a bound on overhead asks for, as a factor."""
SETTLED_ABOVE, FAR = 0.9, 2.0
"""The dead band of a settled load: above the target as a share of what is left; how many times too long."""
URGENT = 1.25
"""How far outside of the dead band an interval is changed at once, as a factor."""
MOST_BUSY = 0.97
SAME_LOAD = math.log(1.25)
SETTLES = 7
"""Timesteps of one load after which it counts as settled."""
LASTING = 7
"""Timesteps in a row that have to agree, beyond those that always have to, before a settled interval changes."""
MOST_GROWTH = 4.0
DAMPING = 0.2
"""Share of the way down that is left for later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What timesteps of one size took, smoothed."""

    rows: float
    busy_ms: float
    timestep: int
    """The latest of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A timestep: its rows, those arrived within `span_ms`, and how long they took."""

    timestep: int
    rows: int
    busy_ms: float
    span_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What the interval has to achieve."""

    share: float
    least_ms: int
    most_ms: int
    latency_ms: float | None = None
    overhead: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Where the interval has been heading."""

    outside: int = 0
    """How many times in a row it was outside of the dead band: a little outside once changes nothing."""
    way: int = 0
    """1 = it grew last, -1 = it shrank, 0 = neither."""
    turned_at: float = 0.0
    """The rate of the input at its latest turn. At the same rate it turns again only to keep up with the input."""
    rate: float = 0.0
    """The rate of the input when the present load began."""
    since: int = 0
    """The timestep at which it began."""

    def under(self, rate: float, timestep: int) -> Course:
        """Return it at a timestep with a rate of the input: another load begins if that differs by more than 25 %."""
        if self.rate and abs(math.log(rate / self.rate)) < SAME_LOAD:
            return self
        return replace(self, rate=rate, since=timestep)


def learnt(sizes: Sequence[Size], sample: Sample) -> tuple[Size, ...]:
    """Return what is known after one more timestep, the latest last."""
    found = next((s for s in sizes if abs(math.log(s.rows / sample.rows)) < SIZES), None)
    made = Size(rows=sample.rows, busy_ms=sample.busy_ms, timestep=sample.timestep)
    if found is not None:
        busy = min(max(made.busy_ms, found.busy_ms / MOST_UNLIKE), found.busy_ms * MOST_UNLIKE)
        rows = (found.rows + made.rows) / 2
        made = replace(made, rows=rows, busy_ms=(found.busy_ms + busy) / 2)
    return (*(s for s in sizes if s is not found), made)[-SIZES_KEPT:]


def fitted(sizes: Sequence[Size]) -> tuple[float, float]:
    """Return (a, b), milliseconds and milliseconds per row. Sizes that are alike leave b at 0."""
    rows = np.array([size.rows for size in sizes])
    busy = np.array([size.busy_ms for size in sizes])
    if rows.max() < APART * rows.min():
        return sizes[-1].busy_ms, 0.0
    # Errors are relative to the time that a timestep took.
    slope, fixed = np.polyfit(rows, busy, 1, w=1 / np.maximum(busy, 1e-3))
    if slope <= 0:
        return float(busy.mean()), 0.0
    if fixed <= 0:
        return 0.0, float((busy / rows).mean())
    return float(fixed), float(slope)


def acceptable(
    a: float, b: float, rate: float, goal: Goal, *, settled: bool = False
) -> tuple[float, float, float]:
    """Return the intervals (shortest, best, longest) that need no change."""
    load = b * rate
    above = SETTLED_ABOVE if settled else ABOVE
    around, far = (FAR, FAR) if settled else (AROUND, 1.0)
    share = min(max(goal.share, (1 + load) / 2), MOST_BUSY)
    shortest, best, longest = (
        _interval(a, share + above * (1 - share), load),
        _interval(a, share, load),
        _interval(a, share - BELOW, load) * far,
    )
    latency = math.inf if goal.latency_ms is None else max(0.0, (goal.latency_ms - a) / (1 + load))
    longer = 0.0
    if goal.overhead is not None:
        longer = min(
            latency, a * (1 - goal.overhead) / (goal.overhead * load) if load else math.inf
        )
    if longer > best:
        shortest, best, longest = max(shortest, longer / around), longer, longer * around
    return shortest, best, max(best, min(longest, latency * far))


def _interval(a: float, share: float, load: float) -> float:
    return a / (share - load) if share > load else math.inf


def next_interval(
    sizes: Sequence[Size], rate: float, interval_ms: int, goal: Goal, course: Course
) -> tuple[int, Course]:
    """Return the interval from here on, and the course after it. rate: rows per millisecond."""
    course = course.under(rate, sizes[-1].timestep)
    settled = sizes[-1].timestep - course.since > SETTLES
    shortest, best, longest = acceptable(*fitted(sizes), rate, goal, settled=settled)
    if shortest <= interval_ms <= longest:
        return interval_ms, replace(course, outside=0)
    kept = interval_ms, replace(course, outside=course.outside + 1)
    far = shortest > URGENT * interval_ms or interval_ms > URGENT * longest
    if course.outside < (not far) + LASTING * settled:
        return kept
    way = 1 if interval_ms < shortest else -1
    if way == -course.way:
        same = abs(math.log(rate / course.turned_at)) < SAME_LOAD if course.turned_at else False
        if same and sizes[-1].busy_ms <= interval_ms:
            return kept
        course = replace(course, turned_at=rate)
    now = (
        interval_ms or sizes[-1].busy_ms
    )  # without an interval, a timestep follows the one before it
    best = min(best, MOST_GROWTH * now)
    if best < interval_ms:
        best += DAMPING * (interval_ms - best)
    chosen = round(min(max(best, goal.least_ms), goal.most_ms))
    return chosen, replace(course, outside=1, way=way if interval_ms else 0)
