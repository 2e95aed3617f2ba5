"""The executors of an application, as far as cores are concerned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from rechannel.profiling.diagnosis.capacity import Capacity
from rechannel.profiling.diagnosis.task_table import TaskTable
from rechannel.profiling.spark.application import Application
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

    @classmethod
    def of(cls, app: Application, table: TaskTable) -> Cluster:
        """Return what an application had."""
        each = [
            max(1, one.cores // task_cpus(app))
            for one in app.executors.values()
            if one.name != "driver"
        ]
        return cls(
            capacity=Capacity.of(app, table),
            executor_cores=round(median(each)) if each else 1,
            local=app.local,
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
        return math.ceil(cores / (executor_cores or self.executor_cores))
