"""The replay of groups of jobs, compared with results that are known, and with one that moves on step by step."""

from math import inf
from random import Random

import numpy as np
import pytest

from rechannel.profiling.diagnosis.replay import lengths
from rechannel.profiling.diagnosis.schedule import LATE, WAITED, unchanged
from tests.unit.profiling.diagnosis.schedules import (
    PlainGroup,
    PlainJob,
    PlainStage,
    scheduled,
    simulated,
    variant,
)

ONE = np.zeros(1, dtype=np.int64)


def length(group: PlainGroup, **changes) -> float:
    schedule = scheduled(group)
    return float(lengths(schedule, variant(schedule, **changes), ONE)[0])


def job(*tasks, **more) -> PlainJob:
    return PlainJob([PlainStage(tasks)], **more)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (PlainGroup([job(5)]), 5),
        (PlainGroup([job(1, 2, 3)]), 4),
        (PlainGroup([job(3, 2, 2, 4, 4, 9)], cores=3), 12),
        (PlainGroup([job(5, 5, 5, tail=2, delay=1)]), 13),
        (PlainGroup([PlainJob([PlainStage([4]), PlainStage([3], [0], latency=2)])]), 9),
        # The core that the first stage leaves idle is taken by the second.
        (PlainGroup([PlainJob([PlainStage([1, 5]), PlainStage([4])])]), 5),
        (PlainGroup([job(4), job(3, after=0, delay=2), job(20)]), 20),
        (PlainGroup([job(4), job(30, after=0, delay=2), job(20)]), 36),
        (PlainGroup([job()]), 0),
        (PlainGroup([PlainJob([], tail=3)]), 3),
        (PlainGroup([job(4, 4)], cores=0), 8),
    ],
)
def test_known_lengths(group, expected):
    assert length(group) == expected


def test_other_tasks_and_other_cores():
    group = PlainGroup([PlainJob([PlainStage([9, 1, 1, 1]), PlainStage([4, 4, 4], [0])])])
    assert length(group) == 9 + 8
    assert length(group, s0=[3, 3, 3, 3]) == 6 + 8
    assert length(group, s0=[]) == 8
    assert length(group, cores=2.0) == 9 + 4
    assert length(group, cores=0.5) == 12 + 12


def test_infinite_cores_leave_the_longest_chain_of_stages():
    random = Random(3)
    for _ in range(30):
        group = made(random)
        chains = []
        for one in group.jobs:
            ends: list[float] = []
            for stage in one.stages:
                begun = max([0.0, *(ends[parent] for parent in stage.parents)]) + stage.latency
                ends.append(begun + max(stage.tasks, default=0.0))
            before = one.delay if one.after < 0 else chains[one.after] + one.delay
            chains.append(before + max(ends, default=0.0) + one.tail)
        assert length(group, cores=inf) == max(chains)


def made(random: Random) -> PlainGroup:
    """A group of up to three jobs of up to four stages, in whole ms."""
    jobs = []
    for number in range(random.randint(1, 3)):
        stages = [
            PlainStage(
                tasks=[random.randint(1, 9) for _ in range(random.randint(0, 6))],
                parents=random.sample(range(u), random.randint(0, u)),
                latency=random.randint(0, 3),
            )
            for u in range(random.randint(0, 4))
        ]
        after = random.randint(-1, number - 1)
        jobs.append(PlainJob(stages, after, random.randint(0, 4), random.randint(0, 3)))
    return PlainGroup(jobs, random.randint(1, 4))


def test_random_groups_are_as_long_as_step_by_step():
    random = Random(1)
    for _ in range(300):
        group = made(random)
        assert length(group) == simulated(group)


def test_a_longer_task_makes_a_single_stage_longer_by_no_more_than_that():
    # Across stages, list scheduling has anomalies; within one, the bound of Graham holds.
    random = Random(2)
    for _ in range(100):
        tasks = [random.randint(1, 20) for _ in range(random.randint(2, 30))]
        cores = random.randint(1, 5)
        before = length(PlainGroup([job(*tasks)], cores))
        assert max(*tasks, sum(tasks) / cores) <= before
        assert before <= sum(tasks) / cores + max(tasks) * (cores - 1) / cores + 1e-9
        for i, task in enumerate(tasks):
            more = random.randint(1, 9)
            longer = [*tasks[:i], task + more, *tasks[i + 1 :]]
            assert before <= length(PlainGroup([job(*longer)], cores)) <= before + more
        doubled = [2 * task for task in tasks]
        assert length(PlainGroup([job(*doubled)], cores)) == 2 * before


def test_a_retry_waits_for_its_failure_and_a_copy_for_its_delay():
    schedule = scheduled(PlainGroup([job(10, 4, 6)], cores=3))
    flags = np.array([0, WAITED, WAITED | LATE], dtype=np.uint8)
    late = np.array([0, 1], dtype=np.int64)
    # Task 2 retries task 1, 3 ms after that failed; nothing waits for task 0.
    retried = schedule._replace(
        flags=flags, late=late, late_tasks=np.array([[2, 1]]), late_delays=np.array([3.0])
    )
    assert lengths(retried, unchanged(retried), ONE) == [4 + 3 + 6]
    copied = retried._replace(late_tasks=np.array([[2, -1]]), late_delays=np.array([5.0]))
    assert lengths(copied, unchanged(copied), ONE) == [5 + 6]
    # With other numbers of tasks there is no retry.
    assert lengths(retried, variant(retried, s0=[2.0, 2.0]), ONE) == [2]
    # With as many tasks it is still one.
    assert lengths(retried, variant(retried, s0=[10.0, 1.0, 6.0]), ONE) == [1 + 3 + 6]


def test_cores_come_and_go():
    schedule = scheduled(PlainGroup([job(4, 4, 4, 4)], cores=1))
    coming = schedule._replace(step=np.array([0, 2]), steps=np.array([[0.0, 1.0], [4.0, 2.0]]))
    assert lengths(coming, unchanged(coming), ONE) == [8]
    going = schedule._replace(step=np.array([0, 2]), steps=np.array([[0.0, 4.0], [1.0, -3.0]]))
    assert lengths(going, unchanged(going), ONE) == [4]
    late = schedule._replace(step=np.array([0, 2]), steps=np.array([[0.0, 0.0], [7.0, 4.0]]))
    assert lengths(late, unchanged(late), ONE) == [11]
