"""What became of a simulated stream, as values: changes, parallelism and cores, latency, and the oracle beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rechannel.scaling.model.rates import Floats
from rechannel.scaling.simulator.windows import Oracle


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that was made."""

    at_s: float
    before: Mapping[str, int]
    """Instances, or tasks, by operator."""
    after: Mapping[str, int]
    executors: int | None
    """Those that were asked for; None if nothing was said of them."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A run of a policy against a load on an engine."""

    changes: tuple[Change, ...]
    edges_s: Floats
    """Beginning of each policy interval, and the end of the last: shape (intervals + 1,)."""
    parallelism: Mapping[str, Floats]
    """By operator, in each interval: shape (intervals,)."""
    cores: Floats
    """That were there at the end of each interval."""
    arrived: Floats
    """Records per second at all sources, in each interval."""
    at_s: Floats
    """When latency was sampled: shape (samples,)."""
    spans_s: Floats
    """For how long each sample stands."""
    latency_s: Floats
    core_seconds: float
    """What was paid for."""
    oracle: Oracle
    """What the least would have been in each interval."""

    def in_target(self, latency_s: float, *, without: Sequence[tuple[float, float]] = ()) -> float:
        """Return the share of time with at most a latency, in seconds; 1 if no time is left to count.

        without: (start, end) of times that do not count. Time at the end that no sample stands for counts as too late
        if there is more of it than that latency.
        """
        counts = np.ones(len(self.at_s), dtype=bool)
        for start, end in without:
            counts &= (self.at_s <= start) | (self.at_s > end)
        good = self.spans_s[counts & (self.latency_s <= latency_s)].sum()
        total = self.spans_s[counts].sum()
        silent = self.edges_s[-1] - (self.at_s[-1] if len(self.at_s) else self.edges_s[0])
        if silent > latency_s:
            total += silent
        return float(good / total) if total else 1.0

    @property
    def over_oracle(self) -> float:
        """Core-seconds over those of the oracle."""
        return self.core_seconds / self.oracle.core_seconds
