"""Whether the rows of an operator are skewed, and which change helps: more tasks do not. Pure.

The heaviest of p tasks receives h times the mean. If that costs a turn more than a twentieth of what an interval has
room for, with b and k the shares of the heaviest bin and key:

    b p is near 1       -> rebalance   other owners for the bins would do
    k p is not near 1   -> spread      one key is more than a task's share: several tasks must have it
    otherwise           -> split       one bin is more than a task's share, but not because of one key

and what remains of h is 1, k p or b p, whichever the change leaves. Where bins were not measured, the answer is
`rebalance`, and h is taken to remain.
"""

from __future__ import annotations

from dataclasses import dataclass

from rechannel.scaling.policies.policy import Activity

NEAR = 1.2
"""Times the mean that a task may have without being heavy."""
MATTERS = 0.05
"""Share of the room of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How unequal the tasks of an operator are, and what to do about it."""

    heaviest: float
    """Rows of the heaviest task over the mean."""
    remains: float
    """The same after the remedy."""
    remedy: str | None = None
    """None if nothing needs to be done."""


def heaviest(activity: Activity, total: float) -> float:
    """Return the rows of the heaviest task over the mean; 1 if there were none. total: rows of all tasks."""
    if not total:
        return 1.0
    reports = activity.reports
    return max(1.0, reports.most_received * reports.parallelism / total)


def skew(activity: Activity, times: float, work_ms: float, room_ms: float) -> Skew:
    """Return the skew of an operator.

    times: rows of the heaviest task over the mean, from `heaviest`. work_ms: milliseconds that its rows of one timestep
    take on one core. room_ms: what an interval has room for.
    """
    tasks = activity.reports.parallelism
    costs = work_ms / tasks * (times - 1)
    if times <= NEAR or costs <= MATTERS * room_ms or not activity.has_bins:
        return Skew(heaviest=times, remains=times)
    if activity.heaviest_bin is None:
        return Skew(heaviest=times, remains=times, remedy="rebalance")
    bins, key = activity.heaviest_bin * tasks, (activity.heaviest_key or 0.0) * tasks
    if bins <= NEAR:
        return Skew(heaviest=times, remains=max(1.0, bins), remedy="rebalance")
    if key > NEAR:
        return Skew(heaviest=times, remains=1.0, remedy="spread")
    return Skew(heaviest=times, remains=max(1.0, key), remedy="split")
