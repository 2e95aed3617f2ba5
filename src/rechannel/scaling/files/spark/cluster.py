"""The executors of an application, as far as cores are concerned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rechannel.profiling.diagnosis.capacity import Capacity
from rechannel.profiling.diagnosis.task_table import TaskTable
from rechannel.profiling.spark.application import Application, Executor
from rechannel.profiling.spark.driver import task_cpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What an application had."""

    capacity: Capacity
    """Cores over time, as many as tasks can use."""
    executor_cores: int
    """Tasks that run at the same time on an executor."""
    local: bool
    """Whether the driver runs all tasks."""
    task_cpus: int = 1
    """Cores of an executor that a task takes; all other numbers here are of tasks that run at the same time."""
    executors: int = 0
    """The most that there were at a time."""

    @classmethod
    def of(cls, app: Application, table: TaskTable) -> Cluster:
        """Return what an application had."""
        mine = [each for each in app.executors.values() if each.name != "driver" and each.cores > 0]
        each = [max(1, one.cores // task_cpus(app)) for one in mine]
        return cls(
            capacity=Capacity.of(app, table),
            executor_cores=round(median(each)) if each else 1,
            local=app.local,
            task_cpus=task_cpus(app),
            executors=_most(app, mine),
        )

    @property
    def cores(self) -> int:
        """The most that there were at a time."""
        return max(1, round(self.capacity.most))

    def cores_in(self, start: float, end: float) -> int:
        """Return how many there were on average between two times, Unix ms."""
        return max(1, round(self.capacity.mean(start, end)))

    def executors_for(self, cores: int, executor_cores: int | None) -> int:
        """Return how many executors have that many cores; 0 if the driver runs all tasks."""
        if self.local and executor_cores is None:
            return 0
        return math.ceil(cores / self.slots(executor_cores))

    def slots(self, executor_cores: int | None) -> int:
        """Return how many tasks run at the same time on an executor. executor_cores: of it; None = as it was."""
        if executor_cores is None:
            return self.executor_cores
        return max(1, executor_cores // self.task_cpus)


def _most(app: Application, executors: Sequence[Executor]) -> int:
    """Return the most executors that there were at a time, with those that are only known from tasks."""
    events = [(each.added, 1) for each in executors]
    events += [(each.removed, -1) for each in executors if each.removed > each.added]
    there = sum(name not in app.executors for name in app.tasks.executors)
    most = there
    for _, change in sorted(events):
        there += change
        most = max(most, there)
    return most
