"""A few points that stand for many tasks, for a line through what tasks receive and take. Pure.

Of the tasks, `TAKEN` count, at equal distances in their order. Sorted by their rows, `GROUPS` groups of neighbours
become one point each: the mean rows and mean milliseconds of the middle half of the group, by milliseconds. Tasks that
were slow for another reason are thus left out before they are averaged; and as both means are those of the same tasks,
the points of a straight line lie on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

TAKEN = 96
GROUPS = 6
SIZE = TAKEN // GROUPS
BORDERS = range(SIZE, TAKEN, SIZE)
"""Where groups begin, in order of rows."""
FIRST, LAST = SIZE // 4, SIZE - SIZE // 4
"""The middle half of a group."""


def points_of_tasks(rows: Sequence[Floats], ms: Sequence[Floats]) -> Floats:
    """Return the points of several operators, shape (2, operators, groups).

    rows, ms: what the tasks of each operator received and took, at least one task each.
    """
    taken = np.concatenate([column[_taken(len(column))] for column in (*rows, *ms)])
    groups = _partitioned(taken.reshape(2, -1, TAKEN), 0, BORDERS).reshape(2, -1, SIZE)
    middle = _partitioned(groups, 1, (FIRST, LAST))[:, :, FIRST:LAST]
    means: Floats = np.add.reduce(middle, axis=2) / (LAST - FIRST)
    return means.reshape(2, -1, GROUPS)


def middle_of(points: Floats) -> Floats:
    """Return the points that stand for those of several timesteps: of each, the mean of the middle half.

    points: shape (timesteps, 2, points). The middle half is that by milliseconds: a timestep that was slow as a whole
    does not count.
    """
    count = len(points)
    order = points[:, 1].argsort(axis=0)[count // 4 : count - count // 4]
    columns = np.arange(points.shape[2])
    means: Floats = np.add.reduce(points[order, :, columns], axis=0) / len(order)
    return means.T


def _partitioned(columns: Floats, by: int, borders: Sequence[int]) -> Floats:
    """Return columns of shape (2, groups, members) with the members of each group partitioned by one of the two."""
    order = columns[by].argpartition(borders, axis=1)
    order += np.arange(0, order.size, order.shape[1])[:, None]
    taken: Floats = columns.reshape(2, -1).take(order, axis=1)
    return taken


@lru_cache(maxsize=128)
def _taken(count: int) -> slice | npt.NDArray[np.int_]:
    """Return the places of the tasks that are taken, of `count`."""
    if count % TAKEN == 0:
        return slice(None, None, count // TAKEN)
    return np.arange(TAKEN) * count // TAKEN
