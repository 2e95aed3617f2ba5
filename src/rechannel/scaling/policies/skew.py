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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rechannel.scaling.model.rates import Floats
from rechannel.scaling.policies.policy import Activity

NEAR = 1.2
"""Times the mean that a task may have without being heavy."""
MATTERS = 0.05
"""Share of the room of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Skews:
    """How unequal the tasks of operators are, and what to do about it."""

    heaviest: Floats
    """Rows of the heaviest task over the mean, shape (operators,)."""
    remains: Floats
    """The same after the remedies."""
    remedies: Mapping[int, str]
    """By place of an operator: what helps. Those for which nothing needs to be done are absent."""


def heaviest(active: Sequence[Activity], total: Floats, tasks: Floats) -> Floats:
    """Return the rows of the heaviest task over the mean, by operator; 1 if there were none.

    total: rows of all tasks. tasks: how many there are. Both of shape (operators,).
    """
    most = np.array([each.reports.most_received for each in active])
    return np.maximum(most * tasks / np.where(total > 0, total, np.inf), 1.0)


def skews(
    active: Sequence[Activity], times: Floats, work_ms: Floats, tasks: Floats, room_ms: float
) -> Skews:
    """Return the skew of operators.

    times: rows of the heaviest task over the mean, from `heaviest`. work_ms: milliseconds that the rows of one timestep
    take on one core. tasks: how many there are. All of shape (operators,). room_ms: what an interval has room for.
    """
    heavy = (times > NEAR) & (work_ms / tasks * (times - 1) > MATTERS * room_ms)
    remains, remedies = times, dict[int, str]()
    for place in np.flatnonzero(heavy).tolist():
        if active[place].has_bins:
            if not remedies:
                remains = times.copy()
            remedies[place], remains[place] = _remedy(active[place], float(times[place]))
    return Skews(heaviest=times, remains=remains, remedies=remedies)


def _remedy(activity: Activity, times: float) -> tuple[str, float]:
    """Return what helps, and the rows of the heaviest task over the mean after it."""
    tasks = activity.reports.parallelism
    if activity.heaviest_bin is None:
        return "rebalance", times
    bins, key = activity.heaviest_bin * tasks, (activity.heaviest_key or 0.0) * tasks
    if bins <= NEAR:
        return "rebalance", max(1.0, bins)
    if key > NEAR:
        return "spread", 1.0
    return "split", max(1.0, key)
