"""Spark's dynamic allocation of executors, and its streaming form. Pure.

**Dynamic allocation** (`ExecutorAllocationManager` in Spark's core; settings `spark.dynamicAllocation.*`). While tasks
wait for a core, executors are requested: first when they have waited for `schedulerBacklogTimeout` (1 s), then after
each further `sustainedSchedulerBacklogTimeout` (as long), 1, 2, 4, ... at a time. The target never exceeds what all
running and waiting tasks could fill; a request that it cuts short starts again at 1. An executor without a task for
`executorIdleTimeout` (60 s) is removed. It knows nothing of intervals, and asks for as much as there are tasks.

Spark looks every 100 ms, a policy once per window: all timeouts that passed within the window are counted, with the
tasks that wait at its end.

**Its streaming form** (`ExecutorAllocationManager` of Spark Streaming; `spark.streaming.dynamicAllocation.*`). Every
`scalingInterval` (60 s), the mean time of the batches over their interval is a ratio: from `scalingUpRatio` (0.9) on,
the ratio, rounded, is how many executors are added, at least 1; up to `scalingDownRatio` (0.3), one is removed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rechannel.errors import RefusedError
from rechannel.scaling.policies.policy import Advice, Cores, Memory, Seen

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What dynamic allocation remembers."""

    target: int
    """Executors that were asked for."""
    add: int = 1
    """Executors that the next request adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicAllocation:
    """Executors for the tasks that wait, until they are idle."""

    backlog_timeout_s: float = 1.0
    sustained_timeout_s: float = 1.0
    idle_timeout_s: float = 60.0
    least_executors: int = 0
    most_executors: int = UNLIMITED

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        _check_bounds(self.least_executors, self.most_executors)
        if min(self.backlog_timeout_s, self.sustained_timeout_s, self.idle_timeout_s) <= 0:
            raise RefusedError(f"{self}: give timeouts above 0")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return the target of executors, None for an engine without any."""
        cores = seen.cores
        if cores is None:
            return None, memory
        state = memory or Requested(target=cores.executors)
        if cores.waiting_tasks:
            state = self._request(seen, cores, state)
        else:
            state = Requested(target=self._without_idle(cores))
        if state.target == cores.executors:
            return None, state
        if state.target > cores.executors:
            reason = (
                f"{cores.waiting_tasks} tasks have waited for a core for {cores.waiting_s:.1f} s"
            )
        else:
            reason = f"{cores.executors - state.target} executors had no task for {self.idle_timeout_s:g} s"
        evidence = {"waiting_tasks": cores.waiting_tasks, "waiting_s": cores.waiting_s}
        return Advice(executors=state.target, reason=reason, evidence=evidence), state

    def _request(self, seen: Seen, cores: Cores, state: Requested) -> Requested:
        """Return the target after the timeouts that passed in the window, while the tasks waited."""
        slots = cores.cores_per_executor
        needed = math.ceil((cores.waiting_tasks + cores.executors * slots) / slots)
        for _ in range(self._timeouts(seen, cores)):
            start = max(state.target, cores.executors)
            target = min(start + state.add, needed)
            target = max(min(target, self.most_executors), self.least_executors)
            if target == state.target:
                return replace(state, add=1)
            add = 2 * state.add if target - state.target == state.add else 1
            state = Requested(target=target, add=add)
        return state

    def _timeouts(self, seen: Seen, cores: Cores) -> int:
        """How many timeouts passed within the window."""

        def until(waited_s: float) -> int:
            over = waited_s - self.backlog_timeout_s
            return 1 + math.floor(over / self.sustained_timeout_s) if over >= 0 else 0

        return until(cores.waiting_s) - until(cores.waiting_s - seen.window_s)

    def _without_idle(self, cores: Cores) -> int:
        idle = sum(each >= self.idle_timeout_s for each in cores.idle_s)
        return max(cores.executors - idle, min(cores.executors, self.least_executors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The times of the batches since the last decision, as the streaming form remembers them."""

    since_s: float
    sum_ms: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingDynamicAllocation:
    """Executors in proportion to how long batches take for their interval."""

    interval_s: float = 60.0
    up_ratio: float = 0.9
    down_ratio: float = 0.3
    least_executors: int = 1
    most_executors: int = UNLIMITED

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError."""
        _check_bounds(self.least_executors, self.most_executors)
        if not (0 < self.down_ratio < self.up_ratio and self.interval_s > 0):
            raise RefusedError(f"{self}: give 0 < down_ratio < up_ratio, and an interval above 0")

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return the executors after an interval, None within it and for an engine without any."""
        cores = seen.cores
        if cores is None:
            return None, memory
        state = memory or Batches(since_s=seen.start_s)
        state = replace(
            state,
            sum_ms=state.sum_ms + sum(cores.durations_ms),
            count=state.count + len(cores.durations_ms),
        )
        if seen.end_s - state.since_s < self.interval_s - 1e-6:
            return None, state
        after = Batches(since_s=seen.end_s)
        if not state.count or cores.interval_ms <= 0:
            return None, after
        ratio = math.floor(state.sum_ms / state.count) / cores.interval_ms
        wanted = cores.executors
        if ratio >= self.up_ratio:
            wanted += max(math.floor(ratio + 0.5), 1)
            wanted = max(min(self.most_executors, wanted), self.least_executors)
        elif ratio <= self.down_ratio and wanted > self.least_executors:
            wanted -= 1
        if wanted == cores.executors:
            return None, after
        reason = f"batches take {ratio:.2f} of their interval"
        return Advice(executors=wanted, reason=reason, evidence={"ratio": ratio}), after


def _check_bounds(least: int, most: int) -> None:
    if not 0 <= least <= most or most == 0:
        raise RefusedError(f"executors from {least} to {most}: give 0 <= least <= most, most > 0")
