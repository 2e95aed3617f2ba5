"""The settings of the autoscaler of the Flink Kubernetes operator, with its defaults. See `flink.py`.

Next to each, its name below `job.autoscaler.`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rechannel.errors import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkSettings:
    """Times in seconds, shares as numbers."""

    window_s: float = 900.0
    """`metrics.window`"""
    stabilisation_s: float = 300.0
    """`stabilization.interval`: what is measured so soon after a change does not count."""
    utilisation: float = 0.7
    """`utilization.target`"""
    boundary: float = 0.3
    """`target.utilization.boundary`: on each side; within it, nothing is changed."""
    down_interval_s: float = 3600.0
    """`scale-down.interval`"""
    most_down: float = 0.6
    """`scale-down.max-factor`"""
    most_up: float = 100_000.0
    """`scale-up.max-factor`"""
    catch_up_s: float = 1800.0
    """`catch-up.duration`; 0 = backlogs do not count."""
    restart_s: float = 300.0
    """`restart.time`"""
    lag_threshold_s: float = 300.0
    """`backlog-processing.lag-threshold`"""
    least: int = 1
    """`vertex.min-parallelism`"""
    most: int = 200
    """`vertex.max-parallelism`"""
    key_groups: int | None = 128
    """The largest parallelism of the job, which operators by key divide; None = operators are not by key."""
    block_ineffective: bool = False
    """`scaling.effectiveness.detection.enabled`"""
    effective: float = 0.1
    """`scaling.effectiveness.threshold`: share of the expected gain."""
    learn_coefficient: bool = False
    """`observed-scalability.enabled`"""
    least_coefficient: float = 0.5
    """`observed-scalability.coefficient-min`"""
    least_observations: int = 3
    """`observed-scalability.min-observations`"""
    history: int = 3
    """`history.max.count`: changes of an operator that are remembered."""
    history_s: float = 86_400.0
    """`history.max.age`"""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        times = (self.window_s, self.stabilisation_s, self.down_interval_s, self.catch_up_s)
        if not all(0 <= each < math.inf for each in (*times, self.restart_s, self.lag_threshold_s)):
            raise RefusedError(f"{self}: give times that are not negative")
        if not (0 < self.utilisation <= 1 and 0 <= self.boundary <= 1 and 0 <= self.most_down < 1):
            raise RefusedError(f"{self}: give shares between 0 and 1")
        if not (1 <= self.least <= self.most and (self.key_groups is None or self.key_groups >= 1)):
            raise RefusedError(f"{self}: give 1 <= least <= most, and at least one key group")
