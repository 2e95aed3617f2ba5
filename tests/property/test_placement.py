"""Placement against brute force: of all balanced placements, one that moves the fewest tasks."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.reconfigure.placement import place

NAMES = "abc"
GONE = "z"


@st.composite
def situations(draw: st.DrawFn) -> tuple[int, dict[int, str], dict[int, str], list[Executor]]:
    """Some tasks, where they were, where they are wanted, and the executors."""
    tasks = draw(st.integers(1, 6))
    somewhere = st.dictionaries(st.integers(0, tasks), st.sampled_from(NAMES + GONE))
    cores = draw(st.lists(st.integers(1, 3), min_size=2, max_size=3))
    executors = [Executor(id=NAMES[i], host="h", cores=n) for i, n in enumerate(cores)]
    return tasks, draw(somewhere), draw(somewhere), draw(st.permutations(executors))


def balanced(placed: dict[int, str], free: list[int], cores: dict[str, int]) -> bool:
    """No free task would find fewer tasks per core elsewhere."""
    load = Counter(placed.values())
    return all(
        load[placed[task]] / cores[placed[task]] <= (load[at] + 1) / cores[at]
        for task in free
        for at in cores
        if at != placed[task]
    )


def moves(placed: dict[int, str], previous: dict[int, str], free: list[int]) -> int:
    """Tasks that could have stayed and did not."""
    at_home = set(placed.values()) | set(NAMES)
    return sum(
        previous.get(t, placed[t]) in at_home and previous.get(t, placed[t]) != placed[t]
        for t in free
    )


@given(situations())
def test_no_balanced_placement_moves_fewer_tasks(
    situation: tuple[int, dict[int, str], dict[int, str], list[Executor]],
) -> None:
    tasks, previous, wanted, executors = situation
    cores = {executor.id: executor.cores for executor in executors}
    alive = {task: at for task, at in previous.items() if at in cores}
    fixed = {task: at for task, at in wanted.items() if at in cores and task < tasks}
    free = [task for task in range(tasks) if task not in fixed]
    every = (dict(enumerate(places)) for places in product(cores, repeat=tasks))
    rivals = [
        rival
        for rival in every
        if all(rival[task] == at for task, at in fixed.items()) and balanced(rival, free, cores)
    ]
    placed = place(tasks, previous, wanted, executors)
    assert placed in rivals
    fewest = min(moves(rival, alive, free) for rival in rivals)
    assert moves(placed, alive, free) == fewest
    assert place(tasks, placed, wanted, executors) == placed
