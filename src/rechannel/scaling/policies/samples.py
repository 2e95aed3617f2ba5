"""The tasks of the last windows, compressed to a few points per operator, so that a fit of all of them is cheap. Pure.

Of one window, up to 96 tasks of an operator are taken, at equal distances in the order in which they were reported,
and sorted by their rows. Six groups of neighbours become one point each: the mean rows and mean milliseconds of the
middle half of the group, by milliseconds. Tasks that were slow for another reason are thus left out before they are
averaged; and as both means are those of the same tasks, the points of a straight line lie on it. Up to six tasks are
points themselves.

The last four windows are kept, in a ring, and two more: of those that left the ring lately, for each operator the one
with the fewest and the one with the most rows per task. They are from another load, or from before a change of
parallelism, and are what tells the fixed part of a task from its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rechannel.scaling.model.cores import Ints
from rechannel.scaling.model.fits import Flags
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.policies.policy import Tasks

TAKEN = 96
GROUPS = 6
RECENT = 4
FEWEST, MOST = RECENT, RECENT + 1
"""The places of the two other windows."""
WINDOWS = RECENT + 2
KEPT = 180
"""Windows for which one of them is kept."""
SIZE = TAKEN // GROUPS
BORDERS = range(SIZE, TAKEN, SIZE)
"""Where groups begin, in order of rows."""
FIRST, LAST = SIZE // 4, SIZE - SIZE // 4
"""The middle half of a group."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """Points of operators."""

    operators: tuple[str, ...]
    points: Floats
    """Rows and milliseconds of each, shape (2, operators, windows, groups)."""
    counts: Ints
    """How many points of a window exist, its first ones; shape (operators, windows)."""
    next: int
    """The place in the ring that is written next."""
    ages: Ints
    """For how many windows the two others were kept, shape (2, operators)."""

    @property
    def rows(self) -> Floats:
        """The rows of all points, shape (operators, points)."""
        return self.points[0].reshape(len(self.operators), -1)

    @property
    def ms(self) -> Floats:
        """The milliseconds of all points, shape (operators, points)."""
        return self.points[1].reshape(len(self.operators), -1)

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
        next=0,
        ages=np.zeros((2, len(operators)), dtype=int),
    )


def added(samples: Samples, tasks: Mapping[str, Tasks]) -> Samples:
    """Return the samples with one more window, in place of the oldest. Operators without tasks get no points.

    The window that leaves is kept in one of the two other places, for each operator for which it belongs there.
    """
    points, counts = samples.points.copy(), samples.counts.copy()
    ages, leaves = samples.ages + 1, samples.next
    means = points[0].sum(axis=2) / np.maximum(counts, 1)
    exists = counts[:, leaves] > 0
    fewer, more = means[:, leaves] < means[:, FEWEST], means[:, leaves] > means[:, MOST]
    for age, place, further in zip(ages, (FEWEST, MOST), (fewer, more), strict=True):
        moves = exists & (further | (age > KEPT) | (counts[:, place] == 0))
        if moves.any():
            points[:, moves, place] = points[:, moves, leaves]
            counts[moves, place] = counts[moves, leaves]
            age[moves] = 0
    points[:, :, leaves], counts[:, leaves] = points_of(
        [tasks.get(name) for name in samples.operators]
    )
    return Samples(
        operators=samples.operators,
        points=points,
        counts=counts,
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
    return replace(made, next=samples.next)


def points_of(tasks: Sequence[Tasks | None]) -> tuple[Floats, Ints]:
    """Return the points of one window, shape (2, operators, groups), and how many each operator has."""
    points, counts = np.zeros((2, len(tasks), GROUPS)), np.zeros(len(tasks), dtype=int)
    many = {n: of for n, of in enumerate(tasks) if of is not None and len(of.rows) > GROUPS}
    for place, of in enumerate(tasks):
        if of is not None and place not in many:
            counts[place] = count = len(of.rows)
            points[0, place, :count], points[1, place, :count] = of.rows, of.ms
    if many:
        points[:, [*many]] = _grouped([*many.values()])
        counts[[*many]] = GROUPS
    return points, counts


def _grouped(tasks: Sequence[Tasks]) -> Floats:
    """Return the points of operators with many tasks, shape (2, operators, groups)."""
    columns = [*(of.rows for of in tasks), *(of.ms for of in tasks)]
    taken = np.concatenate([column[_taken(len(column))] for column in columns])
    groups = _partitioned(taken.reshape(2, -1, TAKEN), 0, BORDERS).reshape(2, -1, SIZE)
    middle = _partitioned(groups, 1, (FIRST, LAST))[:, :, FIRST:LAST]
    means: Floats = np.add.reduce(middle, axis=2) / (LAST - FIRST)
    return means.reshape(2, -1, GROUPS)


def _partitioned(columns: Floats, by: int, borders: Sequence[int]) -> Floats:
    """Return columns of shape (2, groups, members) with the members of each group partitioned by one of the two."""
    order = columns[by].argpartition(borders, axis=1)
    order += np.arange(0, order.size, order.shape[1])[:, None]
    return columns.reshape(2, -1).take(order, axis=1)


@lru_cache(maxsize=128)
def _taken(count: int) -> slice | Ints:
    """Return the places of the tasks that are taken, of `count`."""
    if count % TAKEN == 0:
        return slice(None, None, count // TAKEN)
    return np.arange(TAKEN) * count // TAKEN
