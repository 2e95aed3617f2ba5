"""How many cores there were, and which executors took the place of others."""

from random import Random

import numpy as np
import pytest

from rechannel.profiling.diagnosis.capacity import Capacity
from rechannel.profiling.diagnosis.replacements import replacements
from rechannel.profiling.diagnosis.task_table import TaskTable
from tests.unit.profiling.diagnosis.made import START, application, executor, task


def capacity(*executors, tasks=(), **settings):
    app = application(1_000, tasks, *executors, settings=settings)
    return Capacity.of(app, TaskTable.of(app.tasks))


def test_core_milliseconds_are_the_sum_of_the_cores_of_each_one():
    random = Random(1)
    for _ in range(20):
        some = [
            executor(str(i), added := random.randrange(50), added + random.randrange(50))
            for i in range(5)
        ]
        found = capacity(*some)
        start, end = sorted(random.sample(range(-5, 120), 2))
        cores = [found.at(START + time) for time in range(start, end)]
        assert found.within(START + start, START + end) == sum(cores)
        assert found.mean(START + start, START + end) == max(1.0, np.mean(cores))


def test_executors_that_the_log_does_not_mention_are_always_there():
    found = capacity(executor("1", 10), tasks=[task(0, 0, 100, 200, "2")])
    assert found.within(START, START + 20) == 20 + 2 * 10


@pytest.mark.parametrize(
    ("asked", "cores"), [("2", 4), ("0", 8), ("-1", 8), ("two", 8), ("9" * 5_000, 8)]
)
def test_tasks_that_take_several_cores(asked, cores):
    assert capacity(executor("1", 0, cores=8), **{"spark.task.cpus": asked}).most == cores


def test_each_executor_takes_the_place_of_one_other():
    every = [
        executor("1", 0, removed=10),
        executor("2", 5),
        executor("3", 12),
        executor("4", 0, removed=20),
        executor("5", 20),
        executor("6", 20),
        executor("7", 0, removed=30),
    ]
    gone = [each for each in every if each.removed]
    assert {name: other.name for name, other in replacements(gone, every).items()} == {
        "1": "3",
        "4": "5",
    }
