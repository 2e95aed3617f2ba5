"""The operators of a micro-batch engine to simulate, as values, and the least cores that a load needs. Pure.

A task over n rows takes  fixed_ms + row_ms n  milliseconds. The formulas are those of `model/timesteps.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.costs import exact_cost
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.model.timesteps import Fit, Pace, Turn, fit
from rechannel.scaling.simulator.dataflow import Dataflow
from rechannel.scaling.simulator.instances import check_skew, groups
from rechannel.scaling.simulator.windows import Oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOperator:
    """What a task of an operator costs, and what it emits."""

    row_ms: float
    """Milliseconds for each row."""
    fixed_ms: float = 0.0
    """Milliseconds of a task without rows."""
    selectivity: Mapping[str, float] = field(default_factory=dict)
    """Rows sent per row received, by consumer; 1 for one that is absent."""
    heavy: tuple[float, ...] = ()
    """Share of the rows of each of the heaviest keys."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not all(0 <= each < math.inf for each in (self.row_ms, self.fixed_ms)):
            raise RefusedError(f"{self}: give finite costs of at least 0")
        if self.row_ms + self.fixed_ms == 0:
            raise RefusedError(f"{self}: its tasks would take no time; give one cost above 0")
        check_skew(self.heavy, ())

    def heaviest(self, tasks: int) -> float:
        """Return the rows of the heaviest task of a number of them over their mean."""
        some = groups(tasks, self.heavy, (), first=len(self.heavy) + 1)
        return max(each.share for each in some) * tasks


def oracle(
    dataflow: Dataflow[BatchOperator],
    pace: Pace,
    edges_s: Floats,
    *,
    cores_per_executor: int,
    most: int = 10_000,
) -> Oracle:
    """Return the least cores, in whole executors, that keep the interval under the mean load of each span of time.

    pace: interval, timesteps in flight and utilisation that have to be kept. Where no number of cores does, all of
    `most` count.
    """
    demand, spans = dataflow.demand(edges_s), len(edges_s) - 1
    cores = np.zeros(spans)
    tasks = {name: np.zeros(spans) for name in dataflow.operators}
    for span in range(spans):
        rates = {name: float(demand[name][span]) for name in dataflow.operators}
        found = _least(dataflow.operators, rates, pace, cores_per_executor, most)
        cores[span] = found.cores
        for name, number in found.tasks.items():
            tasks[name][span] = number
    return Oracle(edges_s=edges_s, cores=cores, parallelism=tasks)


def _least(
    operators: Mapping[str, BatchOperator],
    rates: Mapping[str, float],
    pace: Pace,
    each: int,
    most: int,
) -> Fit:
    """Return the first number of executors that does, tried in doubling steps and then by bisection."""

    def on(executors: int) -> Fit:
        cores = executors * each
        turns = {
            name: Turn(
                rate=rates[name],
                cost=exact_cost(of.fixed_ms, of.row_ms),
                heaviest=of.heaviest(cores),
            )
            for name, of in operators.items()
        }
        return fit(turns, pace, cores)

    low, high = 0, 1
    while not on(high).keeps:
        if high * each >= most:
            return on(high)
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if on(middle).keeps else (middle, high)
    return on(high)
