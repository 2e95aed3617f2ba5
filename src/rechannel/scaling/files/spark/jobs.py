"""The cores beyond which an application of batch jobs gains nothing: replays of the tasks that were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.model.trace import MS
from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.advice import JobsAdvice, Replayed
from rechannel.scaling.files.spark.cluster import Cluster

HARDLY = 1.05
"""How many times as long as with any number of cores an application may take."""
ROUNDING = 1e-9
"""Added to a factor on cores, so that their number is not rounded down."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replays:
    """An application with other numbers of cores."""

    case: Case
    cluster: Cluster
    executor_cores: int | None

    def seconds(self, cores: float) -> float:
        """Return how long it takes."""
        if cores == self.cluster.cores:
            return self.case.length
        return self.case.with_cores(cores / self.cluster.capacity.most * (1 + ROUNDING))

    def replayed(self, cores: int) -> Replayed:
        """Return what a number of cores does."""
        seconds = self.seconds(cores)
        return Replayed(
            cores=cores,
            executors=self.cluster.executors_for(cores, self.executor_cores),
            seconds=seconds,
            core_seconds=cores * seconds,
        )

    def least(self, most: int) -> float:
        """Return how long it takes at least. Executors that came late come late with any number of cores."""
        return max(self.seconds(math.inf), self.seconds(most))

    def enough(self, most: int) -> int:
        """Return the least cores with which it hardly takes longer than with any number."""
        allowed = HARDLY * self.least(most)
        low, high = 1, 1
        while high < most and self.seconds(high) > allowed:
            low, high = high + 1, min(2 * high, most)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.seconds(middle) <= allowed else (middle + 1, high)
        return high


def jobs_advice(case: Case, cluster: Cluster, asked: Request) -> JobsAdvice | None:
    """Return what an application of batch jobs needs; None without tasks."""
    if not len(case.table):
        return None
    replays = Replays(case=case, cluster=cluster, executor_cores=asked.executor_cores)
    enough, now = replays.enough(asked.most_cores), cluster.cores
    top = 2 * max(enough, now)
    shown = {min(2**each, asked.most_cores) for each in range(math.ceil(math.log2(top)) + 1)}
    worked = float(case.table.sums["lasted"].sum()) / MS
    return JobsAdvice(
        now=replays.replayed(now),
        advised=replays.replayed(enough),
        least_seconds=replays.least(asked.most_cores),
        others=tuple(map(replays.replayed, sorted(shown - {enough}))),
        busy=min(1.0, worked / max(1.0, case.core_ms)),
    )
