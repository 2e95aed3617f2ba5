"""True rates: what an operator could process if it never waited (DS2, section 3.2).

In a window of length W an instance processes records and is useful for a time W_u <= W: it deserialises, processes and
serialises. All waiting, for input or for room in the output, is left out.

    true processing rate   lambda_p = records in  / W_u        observed rate = records in / W
    true output rate       lambda_o = records out / W_u

The rates of an operator are the sums over its instances. What the paper leaves open has these answers:

- An instance that was useful for no time and received nothing says nothing about its rate: it counts as the mean of the
  others. So does an instance whose report is missing.
- An operator of which no instance says anything has no rate (`processing` is None): see `optimal.py`.
- An instance that received records in no measurable time has an infinite rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.errors import RefusedError

Floats: TypeAlias = npt.NDArray[np.float64]

ALL = ""
"""Instead of the name of a consumer: what an operator emits to each of its consumers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """What the instances of an operator reported of one window."""

    parallelism: int
    """Number of instances; more than reports, if some are missing."""
    records_in: Floats
    """Records received, shape (reports,)."""
    useful_s: Floats
    """Seconds of useful time, shape (reports,)."""
    records_out: Mapping[str, float] = field(default_factory=dict)
    """Records sent in total, by consumer; under `ALL` if every consumer receives the same."""
    totals: InitVar[tuple[float, float] | None] = None
    """Records received by all instances and by the busiest one, of figures that are known to be possible: then these
    are not looked through again."""
    received: float = field(init=False)
    """Records received by all instances."""
    most_received: float = field(init=False)
    """Records received by the busiest instance; 0 without a report."""

    def __post_init__(self, totals: tuple[float, float] | None) -> None:
        """Check that it is possible. Raises RefusedError."""
        received, useful = self.records_in, self.useful_s
        if received.shape != useful.shape or received.ndim != 1:
            msg = f"records of {received.shape} and useful time of {useful.shape} instances: give one of each"
            raise RefusedError(msg)
        if self.parallelism < 1 or len(received) > self.parallelism:
            msg = f"{len(received)} reports of {self.parallelism} instances: give at most one each"
            raise RefusedError(msg)
        if totals is None:
            totals = _totals(received, useful, self.records_out)
        object.__setattr__(self, "received", totals[0])
        object.__setattr__(self, "most_received", totals[1])


def _totals(
    received: Floats, useful: Floats, records_out: Mapping[str, float]
) -> tuple[float, float]:
    """Return the records received by all and by the busiest instance. Raises RefusedError for impossible figures."""
    least, most = _ends(received)
    shortest, longest = _ends(useful)
    possible = 0 <= least <= most < math.inf and 0 <= shortest <= longest < math.inf
    if not (possible and all(0 <= n < math.inf for n in records_out.values())):
        msg = "a number of records or a useful time is negative, infinite or not a number"
        raise RefusedError(msg)
    return float(np.add.reduce(received)), most


def _ends(figures: Floats) -> tuple[float, float]:
    """Return the least and the largest; 0 and 0 of none."""
    if not len(figures):
        return 0.0, 0.0
    return float(np.minimum.reduce(figures)), float(np.maximum.reduce(figures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The rates of one operator, over all of its instances."""

    parallelism: int
    processing: float | None
    """True processing rate, records per second; infinite if it took no time, None if nothing was processed."""
    output: Mapping[str, float] = field(default_factory=dict)
    """Records emitted per record received, by consumer or under `ALL`: the selectivity."""
    observed: float = 0.0
    """Observed processing rate, records per second."""
    reports: int | None = None
    """Instances that the rates were computed from; None = all."""

    def selectivity(self, consumer: str) -> float:
        """Return the records sent to a consumer per record received; 0 for one that was sent nothing."""
        return self.output.get(consumer, self.output.get(ALL, 0.0))


def rates_of(reports: Reports, window_s: float) -> Rates:
    """Return the rates that a window of a length in seconds shows. Raises RefusedError for no length."""
    if not 0 < window_s < math.inf:
        raise RefusedError(f"a window of {window_s} s: give a length above 0")
    received, useful = reports.records_in, reports.useful_s
    spoke = received > 0
    count, total = int(spoke.sum()), float(received.sum())
    processing = None
    if count:
        with np.errstate(divide="ignore"):
            processing = float((received[spoke] / useful[spoke]).mean()) * reports.parallelism
    return Rates(
        parallelism=reports.parallelism,
        processing=processing,
        output={to: sent / total for to, sent in reports.records_out.items()} if total else {},
        observed=total / window_s,
        reports=count,
    )
