"""The executors of a simulated cluster: requested, arriving, working, removed, and paid for.

A requested executor arrives after `startup_s` and is paid for from then on. The newest are removed first, those that
have not arrived before all others; an executor that works is paid for until its tasks are done. Both take effect at the
beginning of a timestep. Cores are numbered across executors, so that few tasks are spread over many of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.simulator.turns import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """An executor that is slow for a while."""

    executor: int
    """Its number: they are counted from 0 in the order in which they were requested."""
    speed: float
    """Over that of the others."""
    from_s: float = 0.0
    until_s: float = math.inf

    def __post_init__(self) -> None:
        """Check it. Raises RefusedError."""
        if not 0 < self.speed < math.inf or not self.from_s < self.until_s:
            raise RefusedError(f"{self}: give a speed above 0, and until_s > from_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What executors are like."""

    cores_per_executor: int = 1
    startup_s: float = 0.0
    """From the request for an executor to its first task."""
    slow: tuple[Slow, ...] = ()

    def __post_init__(self) -> None:
        """Check it. Raises RefusedError."""
        if self.cores_per_executor < 1 or not 0 <= self.startup_s < math.inf:
            raise RefusedError(f"{self}: give at least one core each, and a finite time to start")


class _Executor:
    __slots__ = ("free_ms", "number", "since_ms", "until_ms")

    def __init__(self, number: int, since_ms: float, cores: int) -> None:
        self.number, self.since_ms, self.until_ms = number, since_ms, math.inf
        self.free_ms = np.full(cores, since_ms)


class Executors:
    """The executors of one run. Times are milliseconds from the beginning."""

    def __init__(self, cluster: Cluster, count: int) -> None:
        """Begin with some executors that are there at once. Raises RefusedError for none."""
        self.cluster = cluster
        if count < 1:
            raise RefusedError(f"{count} executors: give at least 1")
        self._requested = 0
        self._present: list[_Executor] = []
        self._coming: list[_Executor] = []
        self._gone: list[_Executor] = []
        self._request(count, 0.0)
        self.settle(0.0)

    @property
    def count(self) -> int:
        """Executors that are there."""
        return len(self._present)

    @property
    def requested(self) -> int:
        """Executors that are there or on their way."""
        return len(self._present) + len(self._coming)

    def change(self, count: int, now_ms: float) -> None:
        """Request executors, or remove some. Raises RefusedError for less than one."""
        there = self.requested
        if count > there:
            self._request(count - there, now_ms + 1e3 * self.cluster.startup_s)
            return
        if count < 1:
            raise RefusedError(f"{count} executors: give at least 1")
        for _ in range(there - count):
            if self._coming:
                self._coming.pop()
            else:
                gone = self._present.pop()
                gone.until_ms = max(now_ms, float(gone.free_ms.max()))
                self._gone.append(gone)
        self._line_up()

    def settle(self, now_ms: float) -> None:
        """Have the executors that have arrived until now take part."""
        if self._coming and self._coming[0].since_ms <= now_ms:
            self._present += [each for each in self._coming if each.since_ms <= now_ms]
            self._coming = [each for each in self._coming if each.since_ms > now_ms]
            self._line_up()

    def speeds(self, now_ms: float) -> Floats:
        """Return the speed of each core."""
        for each in self.cluster.slow:
            if each.from_s <= now_ms / 1e3 < each.until_s:
                break
        else:
            return self._usual
        speeds = self._usual.copy()
        for each in self.cluster.slow:
            if each.from_s <= now_ms / 1e3 < each.until_s:
                speeds[self._numbers == each.executor] = each.speed
        return speeds

    def occupy(self, cores: Places, ends_ms: Floats) -> None:
        """Have cores work until some times."""
        np.maximum.at(self.free_ms, cores, ends_ms)

    def idle_s(self, now_ms: float) -> tuple[float, ...]:
        """Return for how long each executor without a task has had none, in seconds."""
        last = [float(each.free_ms.max()) for each in self._present]
        return tuple((now_ms - each) / 1e3 for each in last if each < now_ms)

    def core_seconds(self, start_ms: float, end_ms: float) -> float:
        """Return what is paid for within a time, tasks that outlive a removed executor included."""
        total = 0.0
        for each in (*self._present, *self._coming, *self._gone):
            total += max(0.0, min(each.until_ms, end_ms) - max(each.since_ms, start_ms))
        self._gone = [each for each in self._gone if each.until_ms > end_ms]
        return total / 1e3 * self.cluster.cores_per_executor

    def _request(self, count: int, since_ms: float) -> None:
        for number in range(self._requested, self._requested + count):
            self._coming.append(_Executor(number, since_ms, self.cluster.cores_per_executor))
        self._requested += count

    def _line_up(self) -> None:
        """Number the cores: the first of each executor, then the second of each, and so on."""
        self.free_ms = np.stack([each.free_ms for each in self._present], axis=1).ravel()
        for place, each in enumerate(self._present):
            each.free_ms = self.free_ms[place :: self.count]  # a view: what `occupy` writes is seen
        numbers = [each.number for each in self._present]
        self._numbers = np.tile(numbers, self.cluster.cores_per_executor)
        self._usual = np.ones(len(self._numbers))
