"""Operators whose instances have a core each: how fast they are, and how many a load needs at least. Pure.

With p instances, each of them processes this many records per second, in useful time:

    rate(p) = rate / (1 + contention (p - 1) + coherency p (p - 1))

(Gunther's universal scalability law, Guerrilla Capacity Planning, 2007, chapter 4, for one instance.) Contention is
for what instances wait for one another, coherency for what each pair exchanges; without both, the operator is linear.
The time `unobserved` goes into neither useful time nor waiting, so DS2 cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.simulator.dataflow import Dataflow
from rechannel.scaling.simulator.instances import check_skew, groups
from rechannel.scaling.simulator.windows import Oracle

MOST = 10_000
"""Instances of an operator that the oracle tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What an operator does with records."""

    rate: float
    """Records per second that a single instance processes."""
    selectivity: Mapping[str, float] = field(default_factory=dict)
    """Records sent per record processed, by consumer; 1 for one that is absent."""
    contention: float = 0.0
    coherency: float = 0.0
    unobserved: float = 0.0
    """Share of each second that an instance spends on what it does not report."""
    heavy: tuple[float, ...] = ()
    """Share of the records of each of the heaviest keys."""
    speeds: tuple[float, ...] = ()
    """Speed of the first instances over that of the others."""
    queue_s: float = 1.0
    """What the input of an instance holds, in seconds of a single instance's work."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        if not 0 < self.rate < math.inf or self.contention < 0 or self.coherency < 0:
            raise RefusedError(
                f"{self}: give a rate above 0, and contention and coherency of at least 0"
            )
        if not 0 <= self.unobserved < 1 or not 0 < self.queue_s < math.inf:
            raise RefusedError(f"{self}: give 0 <= unobserved < 1, and a queue above 0 s")
        check_skew(self.heavy, self.speeds)

    @property
    def queue(self) -> float:
        """Records that the input of an instance holds."""
        return self.queue_s * self.rate

    def rate_at(self, parallelism: int) -> float:
        """Return the records per second of useful time that one of p instances processes."""
        others = parallelism - 1
        return self.rate / (1 + self.contention * others + self.coherency * parallelism * others)

    def capacity(self, parallelism: int) -> float:
        """Return the records per second that a number of instances keeps up with, the most loaded one included."""
        rate = self.rate_at(parallelism) * (1 - self.unobserved)
        unlike = max(len(self.heavy), len(self.speeds)) + 1
        some = groups(parallelism, self.heavy, self.speeds, first=unlike)
        return min(rate * each.speed / each.share for each in some if each.share > 0)


def oracle(dataflow: Dataflow[Operator], edges_s: Floats, *, utilisation: float) -> Oracle:
    """Return the least instances that keep up with the mean load between each of these times and the next.

    utilisation: share of an instance's time that may be used. Where no number of instances does, the least that has
    nine tenths of the largest capacity there is. Raises RefusedError for a share that is not one.
    """
    if not 0 < utilisation <= 1:
        raise RefusedError(f"utilisation={utilisation}: give a number above 0 and at most 1")
    demand, of = dataflow.demand(edges_s), dataflow.operators
    least = {name: _least(each, demand[name] / utilisation) for name, each in of.items()}
    return Oracle(
        edges_s=edges_s,
        cores=sum(least.values(), np.zeros(len(edges_s) - 1)),
        parallelism=least,
    )


def _least(operator: Operator, demand: Floats) -> Floats:
    """Return the first number of instances whose capacity is at least the demand."""
    highest, capacities = float(demand.max()) * (1 - 1e-9), [operator.capacity(1)]
    best, since = capacities[0], 0
    while best < highest and len(capacities) < MOST and since < 100 + len(capacities) // 2:
        capacities.append(operator.capacity(len(capacities) + 1))
        since = 0 if capacities[-1] > best else since + 1
        best = max(best, capacities[-1])
    reached = np.maximum.accumulate(capacities)
    first = np.searchsorted(reached, demand * (1 - 1e-9))
    return np.where(first < len(reached), first, np.searchsorted(reached, 0.9 * best)) + 1.0
