"""The tasks of the last windows, compressed to a few points per operator, so that a fit of all of them is cheap. Pure.

Of one window, six points stand for all tasks of an operator (`telemetry/task_points.py`). Up to six tasks are points
themselves, as are those that stand for many tasks since these were reported.

The last four windows are kept, in a ring, and two more: of those that left the ring lately, for each operator the one
with the fewest and the one with the most rows per task. They are from another load, or from before a change of
parallelism, and are what tells the fixed part of a task from its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rechannel.scaling.model.cores import Ints
from rechannel.scaling.model.fits import Flags
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.policies.policy import Tasks
from rechannel.telemetry.task_points import GROUPS, points_of_tasks

RECENT = 4
FEWEST, MOST = RECENT, RECENT + 1
"""The places of the two other windows."""
WINDOWS = RECENT + 2
KEPT = 180
"""Windows for which one of them is kept."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Points of operators."""

    operators: tuple[str, ...]
    points: Floats
    """Rows and milliseconds of each, shape (2, operators, windows, groups)."""
    counts: Ints
    """How many points of a window exist, its first ones; shape (operators, windows)."""
    means: Floats
    """Mean rows of the points of a window, 0 without any; shape (operators, windows)."""
    next: int
    """The place in the ring that is written next."""
    ages: Ints
    """For how many windows the two others were kept, shape (2, operators)."""

    @property
    def rows(self) -> Floats:
        """The rows of all points, shape (operators, points)."""
        rows: Floats = self.points[0].reshape(len(self.operators), -1)
        return rows

    @property
    def ms(self) -> Floats:
        """The milliseconds of all points, shape (operators, points)."""
        ms: Floats = self.points[1].reshape(len(self.operators), -1)
        return ms

    @property
    def there(self) -> Flags:
        """Which points exist, shape (operators, points)."""
        exist: Flags = np.arange(GROUPS) < self.counts[:, :, None]
        return exist.reshape(len(self.operators), -1)


def none_of(operators: tuple[str, ...]) -> Samples:
    """Return samples without a point."""
    return Samples(
        operators=operators,
        points=np.zeros((2, len(operators), WINDOWS, GROUPS)),
        counts=np.zeros((len(operators), WINDOWS), dtype=int),
        means=np.zeros((len(operators), WINDOWS)),
        next=0,
        ages=np.zeros((2, len(operators)), dtype=int),
    )


def added(samples: Samples, tasks: Mapping[str, Tasks]) -> Samples:
    """Return the samples with one more window, in place of the oldest. Operators without tasks get no points.

    The window that leaves is kept in one of the two other places, for each operator for which it belongs there.
    """
    points, counts, means = samples.points.copy(), samples.counts.copy(), samples.means.copy()
    ages, leaves = samples.ages + 1, samples.next
    exists = counts[:, leaves] > 0
    fewer, more = means[:, leaves] < means[:, FEWEST], means[:, leaves] > means[:, MOST]
    for age, place, further in zip(ages, (FEWEST, MOST), (fewer, more), strict=True):
        moves = exists & (further | (age > KEPT) | (counts[:, place] == 0))
        if moves.any():
            points[:, moves, place] = points[:, moves, leaves]
            counts[moves, place] = counts[moves, leaves]
            means[moves, place] = means[moves, leaves]
            age[moves] = 0
    new, count = points_of([tasks.get(name) for name in samples.operators])
    points[:, :, leaves], counts[:, leaves] = new, count
    means[:, leaves] = new[0].sum(axis=1) / np.maximum(count, 1)
    return Samples(
        operators=samples.operators,
        points=points,
        counts=counts,
        means=means,
        next=(leaves + 1) % RECENT,
        ages=ages,
    )


def for_operators(samples: Samples | None, operators: tuple[str, ...]) -> Samples:
    """Return the samples of these operators; those that are new have none."""
    if samples is not None and samples.operators == operators:
        return samples
    made = none_of(operators)
    if samples is None:
        return made
    for place, name in enumerate(operators):
        if name in samples.operators:
            old = samples.operators.index(name)
            made.points[:, place] = samples.points[:, old]
            made.counts[place] = samples.counts[old]
            made.means[place] = samples.means[old]
    return replace(made, next=samples.next)


def points_of(tasks: Sequence[Tasks | None]) -> tuple[Floats, Ints]:
    """Return the points of one window, shape (2, operators, groups), and how many each operator has."""
    counts = np.array([0 if of is None else len(of.rows) for of in tasks])
    there = [of for of in tasks if of is not None]
    if (counts == GROUPS).all():
        columns = [*(of.rows for of in there), *(of.ms for of in there)]
        return np.concatenate(columns).reshape(2, -1, GROUPS), counts
    points = np.zeros((2, len(tasks), GROUPS))
    many = {n: of for n, of in enumerate(tasks) if of is not None and counts[n] > GROUPS}
    for place, of in enumerate(tasks):
        if of is not None and place not in many:
            points[0, place, : counts[place]], points[1, place, : counts[place]] = of.rows, of.ms
    if many:
        rows, ms = zip(*((of.rows, of.ms) for of in many.values()), strict=True)
        points[:, [*many]] = points_of_tasks(rows, ms)
    return points, np.minimum(counts, GROUPS)
