"""Bundles: tasks of an operator that run in one task of Spark, one after the other, because they are short. Pure.

A task that receives a few rows works for two or three milliseconds, and costs Spark 10 to 20. So short tasks become
as few bundles as run at once (`short_tasks`); each is still a task, with its bins, its files and its report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

Bundles: TypeAlias = tuple[tuple[int, ...], ...]
"""Numbers of the tasks of each bundle, ascending."""

MOST_RANGES = 8
"""Ranges of neighbours in a bundle: each takes the driver some calls to the JVM."""


def bundles_of(tasks: int, number: int) -> Bundles:
    """Return neighbours in some number of bundles of about the same size; fewer if there are not as many tasks."""
    edges = [tasks * i // number for i in range(number + 1)]
    return tuple(tuple(range(first, stop)) for first, stop in pairwise(edges) if first < stop)


def placed_bundles(places: Mapping[int, str], number: Mapping[str, int]) -> Bundles:
    """Return bundles of the tasks of each executor.

    places: executor of each task. number: of the bundles of each executor; of scattered tasks, there are more.
    """
    tasks_of: dict[str, list[int]] = {}
    for task in sorted(places):
        tasks_of.setdefault(places[task], []).append(task)
    return tuple(
        piece
        for executor, tasks in tasks_of.items()
        for bundle in bundles_of(len(tasks), number[executor])
        for piece in _cut([tasks[place] for place in bundle])
    )


def _cut(tasks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield tasks in pieces of at most `MOST_RANGES` ranges of neighbours."""
    ranges = ranges_of(tasks)
    for start in range(0, len(ranges), MOST_RANGES):
        piece = ranges[start : start + MOST_RANGES]
        yield tuple(task for first, stop in piece for task in range(first, stop))


def ranges_of(bundle: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges of neighbours in a bundle, each as its first task and the one after its last."""
    found: list[tuple[int, int]] = []
    for task in bundle:
        if found and found[-1][1] == task:
            found[-1] = found[-1][0], task + 1
        else:
            found.append((task, task + 1))
    return found


def layers_of(bundles: Bundles) -> Sequence[Sequence[tuple[int, int]]]:
    """Return lists with one range of each bundle, empty where it has no further one: their union is all tasks."""
    ranges = [ranges_of(bundle) for bundle in bundles]
    deepest = max(map(len, ranges), default=0)
    return [
        [known[depth] if depth < len(known) else (0, 0) for known in ranges]
        for depth in range(deepest)
    ]
