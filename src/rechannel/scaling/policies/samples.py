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

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
    """Points of operators, shape (operators, windows * groups each)."""

    operators: tuple[str, ...]
    rows: Floats
    ms: Floats
    there: Flags
    """Which points exist."""
    next: int
    """The place in the ring that is written next."""
    ages: Ints
    """For how many windows the two others were kept, shape (2, operators)."""


def none_of(operators: tuple[str, ...]) -> Samples:
    """Return samples without a point."""
    empty = np.zeros((len(operators), WINDOWS * GROUPS))
    ages = np.zeros((2, len(operators)), dtype=int)
    there = empty.astype(bool)
    return Samples(operators=operators, rows=empty, ms=empty, there=there, next=0, ages=ages)


def added(samples: Samples, tasks: Mapping[str, Tasks]) -> Samples:
    """Return the samples with one more window, in place of the oldest. Operators without tasks get no points."""
    rows, ms, there = points([tasks.get(name) for name in samples.operators])
    at, after = _place(samples.next), (samples.next + 1) % RECENT
    made = replace(
        samples,
        rows=samples.rows.copy(),
        ms=samples.ms.copy(),
        there=samples.there.copy(),
        next=after,
        ages=samples.ages + 1,
    )
    _keep_apart(made, at)
    made.rows[:, at], made.ms[:, at], made.there[:, at] = rows, ms, there
    return made


def _place(number: int) -> slice:
    return slice(number * GROUPS, (number + 1) * GROUPS)


def _keep_apart(samples: Samples, leaving: slice) -> None:
    """Move the window that leaves to one of the two other places, for each operator for which it belongs there."""
    by_window = (len(samples.operators), WINDOWS, GROUPS)
    counts = samples.there.reshape(by_window).sum(axis=2)
    means = samples.rows.reshape(by_window).sum(axis=2) / np.maximum(counts, 1)
    number = leaving.start // GROUPS
    exists, mean = counts[:, number] > 0, means[:, number]
    for age, place, sign in ((0, FEWEST, -1), (1, MOST, 1)):
        old = (samples.ages[age] > KEPT) | (counts[:, place] == 0)
        moves = exists & (old | (sign * (mean - means[:, place]) > 0))
        if moves.any():
            for array in (samples.rows, samples.ms, samples.there):
                array[moves, _place(place)] = array[moves, leaving]
            samples.ages[age, moves] = 0


def for_operators(samples: Samples | None, operators: tuple[str, ...]) -> Samples:
    """Return the samples of these operators; those that are new have none."""
    if samples is not None and samples.operators == operators:
        return samples
    made = none_of(operators)
    if samples is None:
        return made
    rows, ms, there = made.rows.copy(), made.ms.copy(), made.there.copy()
    for place, name in enumerate(operators):
        if name in samples.operators:
            old = samples.operators.index(name)
            rows[place], ms[place], there[place] = (
                samples.rows[old],
                samples.ms[old],
                samples.there[old],
            )
    return replace(made, rows=rows, ms=ms, there=there, next=samples.next)


def points(tasks: list[Tasks | None]) -> tuple[Floats, Floats, Flags]:
    """Return the points of one window: rows, milliseconds and which exist, shape (operators, groups)."""
    rows, ms = np.zeros((len(tasks), GROUPS)), np.zeros((len(tasks), GROUPS))
    there = np.zeros((len(tasks), GROUPS), dtype=bool)
    many = []
    for place, each in enumerate(tasks):
        if each is None or not len(each.rows):
            continue
        if len(each.rows) > GROUPS:
            many.append(place)
            continue
        count = len(each.rows)
        rows[place, :count], ms[place, :count], there[place, :count] = each.rows, each.ms, True
    if many:
        rows[many], ms[many] = _grouped([of for of in tasks if of and len(of.rows) > GROUPS])
        there[many] = True
    return rows, ms, there


def _grouped(tasks: list[Tasks]) -> tuple[Floats, Floats]:
    """Return the rows and milliseconds of the groups of operators with many tasks."""
    taken = {count: _taken(count) for count in {len(of.rows) for of in tasks}}
    rows = np.concatenate([of.rows[taken[len(of.rows)]] for of in tasks]).reshape(-1, TAKEN)
    ms = np.concatenate([of.ms[taken[len(of.rows)]] for of in tasks]).reshape(-1, TAKEN)
    each = np.arange(len(tasks))[:, None]
    order = rows.argpartition(BORDERS, axis=1)
    rows, ms = rows[each, order].reshape(-1, SIZE), ms[each, order].reshape(-1, SIZE)
    each = np.arange(len(rows))[:, None]
    middle = ms.argpartition((FIRST, LAST), axis=1)[:, FIRST:LAST]
    rows, ms = (np.add.reduce(column[each, middle], axis=1) for column in (rows, ms))
    return rows.reshape(-1, GROUPS) / (LAST - FIRST), ms.reshape(-1, GROUPS) / (LAST - FIRST)


def _taken(count: int) -> slice | Ints:
    """Return the places of the tasks that are taken, of `count`."""
    if count % TAKEN == 0:
        return slice(None, None, count // TAKEN)
    return np.arange(TAKEN) * count // TAKEN
