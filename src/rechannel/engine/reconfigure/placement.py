"""Which executor runs which task of a stateful operator. Pure.

A task's state is in files that its host caches, so a task that stays on its host finds them in memory. Three rules,
in order of precedence:

1. A task that a user placed runs on that executor while it is alive.
2. The other tasks are balanced: each next task goes to the executor that then has the fewest tasks per core. Tasks that
   a user placed count.
3. A task stays where it ran last unless that executor is gone or has more than its share.

Of all balanced placements, the result moves the fewest tasks: if two executors have the same claim to a task, the one
that would otherwise lose a task gets it. Remaining ties go to the executor listed first.

The placement does not know how much work each task does; users who know can place tasks themselves.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from rechannel.engine.reconfigure.cluster import Executor


def place(
    tasks: int,
    previous: Mapping[int, str],
    wanted: Mapping[int, str],
    executors: Sequence[Executor],
) -> dict[int, str]:
    """Executor of every task; empty if there are fewer than two executors.

    tasks: how many. previous: where each ran last. wanted: where users placed some. executors: those alive.
    Executors that are not alive and tasks that no longer exist are ignored.
    """
    if len(executors) < 2:
        return {}
    alive = {executor.id for executor in executors}
    placed = {task: at for task, at in wanted.items() if at in alive and 0 <= task < tasks}
    free = [task for task in range(tasks) if task not in placed]
    stays = {task: previous[task] for task in free if previous.get(task) in alive}
    turns = _turns(len(free), Counter(placed.values()), Counter(stays.values()), executors)
    room = Counter(turns)
    for task, at in stays.items():
        if room[at]:
            room[at] -= 1
            placed[task] = at
    homeless = iter([task for task in free if task not in placed])
    for at in turns:
        if room[at]:
            room[at] -= 1
            placed[next(homeless)] = at
    return dict(sorted(placed.items()))


def _turns(
    tasks: int, load: Mapping[str, int], staying: Mapping[str, int], executors: Sequence[Executor]
) -> list[str]:
    """Return the executor of each of a number of tasks, placed one after the other."""

    def claim(position: int, given: int) -> tuple[float, bool, int, int]:
        executor = executors[position]
        after = (load.get(executor.id, 0) + given + 1) / executor.cores
        return after, given >= staying.get(executor.id, 0), position, given

    claims = [claim(position, 0) for position in range(len(executors))]
    heapq.heapify(claims)
    turns = []
    for _ in range(tasks):
        _, _, position, given = claims[0]
        turns.append(executors[position].id)
        heapq.heapreplace(claims, claim(position, given + 1))
    return turns


def moved_tasks(before: Mapping[int, str], after: Mapping[int, str]) -> tuple[int, ...]:
    """Tasks that run on another executor than before, in order."""
    return tuple(sorted(task for task, at in after.items() if before.get(task, at) != at))


def admitted_executors(
    alive: Sequence[Executor], known: Collection[str], most: int
) -> tuple[Executor, ...]:
    """Executors to use while new ones are reserved for a change: those known, and the oldest others up to `most`."""
    there = sum(executor.id in known for executor in alive)
    others = [executor.id for executor in alive if executor.id not in known]
    taken = {*known, *others[: max(0, most - there)]}
    return tuple(executor for executor in alive if executor.id in taken)


def surplus(
    total: int, executors: Sequence[Executor], placed: Mapping[str, Mapping[int, str]]
) -> tuple[str, ...]:
    """Executors to give back so that `total` are left: those with the fewest tasks, the youngest first.

    placed: executor of each task, by operator.
    """
    load = Counter(at for tasks in placed.values() for at in tasks.values())
    youngest_first = list(reversed(executors))
    by_load = sorted(youngest_first, key=lambda executor: load[executor.id] / executor.cores)
    return tuple(executor.id for executor in by_load[: max(0, len(executors) - total)])
