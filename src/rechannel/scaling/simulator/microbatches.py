"""A micro-batch engine: timesteps on n cores, whose operators take turns.

A timestep begins an interval after the one before, but not before the one `in_flight` earlier is done. It reads what
has arrived (`ranges.py`), which costs the driver `driver_ms`. An operator may process its rows of t when all of
its producers have done theirs and it is done with t - 1. Then the driver launches its tasks one by one (`turns.py`),
and they take  fixed + row * n  milliseconds on a core of usual speed, where n follows from the shares of heavy keys. A
timestep without rows is left out.

Changes hold from the next timestep on. New numbers of tasks cost that timestep's driver `change_ms` (live: nothing
stops). Executors arrive and go as `executors.py` says; tasks that are requested together with more executors follow
when these are there, as before that they would take turns on the old ones. The latency of a timestep is the age of its
oldest row when all is done; that is what it is sampled for, once for each timestep.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.model.timesteps import Pace
from rechannel.scaling.simulator.dataflow import Dataflow
from rechannel.scaling.simulator.executors import Cluster, Executors
from rechannel.scaling.simulator.instances import shares
from rechannel.scaling.simulator.observing import Observer, Unit
from rechannel.scaling.simulator.ranges import Ranges
from rechannel.scaling.simulator.timesteps import BatchOperator, oracle
from rechannel.scaling.simulator.turns import scheduled
from rechannel.scaling.simulator.windows import Oracle, Window


@dataclass(slots=True, eq=False)
class Timestep:
    """A timestep that has begun. Times are milliseconds."""

    number: int
    start_ms: float
    oldest_ms: float
    rows: dict[str, float]
    """By operator."""
    tasks: dict[str, int]
    ends_ms: dict[str, float] = field(default_factory=dict)
    """When each operator was done."""
    end_ms: float | None = None
    """When all were; None while that is not known."""


class MicroBatchEngine:
    """A simulated micro-batch engine."""

    def __init__(
        self,
        dataflow: Dataflow[BatchOperator],
        pace: Pace,
        tasks: Mapping[str, int],
        *,
        executors: int,
        cluster: Cluster | None = None,
        change_ms: float = 0.0,
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Start a dataflow.

        pace: interval, timesteps in flight and the driver's times; its utilisation is not used. tasks: by operator, 1
        where absent. noise: standard deviation of the logarithm of a random factor on the time of each task.

        Raises RefusedError for what cannot be.
        """
        if not 0 <= change_ms < math.inf or not 0 <= noise < math.inf:
            raise RefusedError(
                f"change_ms={change_ms}, noise={noise}: give finite ones of at least 0"
            )
        if not all(each.keeps for each in dataflow.sources.values()):
            raise RefusedError(
                "a source does not keep what is not read: this engine reads in intervals; give keeps=True"
            )
        self._dataflow, self._pace, self._change_ms, self._noise = dataflow, pace, change_ms, noise
        self._random = np.random.default_rng(seed)
        self._executors = Executors(cluster or Cluster(), executors)
        self._ranges = Ranges(dataflow.sources, pace.interval_ms)
        self._tasks = dict.fromkeys(dataflow.operators, 1)
        self._following: list[tuple[int, dict[str, int]]] = []
        self._order = [each for each in dataflow.topology.operators if each in dataflow.operators]
        self._shares: dict[tuple[str, int], Floats] = {}
        self._observer = Observer(dataflow, pace)
        self._ready: list[tuple[float, int, int]] = []
        self._running: dict[int, Timestep] = {}
        self._recent: deque[Timestep] = deque(maxlen=pace.in_flight)
        self._done_ms = dict.fromkeys(dataflow.operators, 0.0)
        self._done_number = dict.fromkeys(dataflow.operators, -1)
        self._now_ms = self._driver_ms = self._due_ms = 0.0
        self._last_start_ms = 0.0
        self.timesteps = 0
        """Timesteps that have begun so far."""
        self.change(tasks, None)
        self._due_ms = 0.0

    @property
    def now_s(self) -> float:
        """Until when it was simulated, in seconds."""
        return self._now_ms / 1e3

    @property
    def parallelism(self) -> dict[str, int]:
        """Tasks by operator, those that wait for executors included."""
        tasks = dict(self._tasks)
        for _, wanted in self._following:
            tasks |= wanted
        return tasks

    @property
    def cores(self) -> int:
        """Cores of the executors that are there."""
        return self._executors.count * self._executors.cluster.cores_per_executor

    @property
    def executors(self) -> int:
        """Executors that are there or on their way."""
        return self._executors.requested

    def change(self, parallelism: Mapping[str, int], executors: int | None = None) -> None:
        """Give operators other numbers of tasks, and the cluster another number of executors."""
        for name, number in parallelism.items():
            if name not in self._tasks or number < 1:
                msg = (
                    f"{number} tasks of {name!r}: give at least 1, of one of {sorted(self._tasks)}"
                )
                raise RefusedError(msg)
        if executors is not None:
            self._executors.change(executors, self._now_ms)
            if executors <= self._executors.count:
                self._following = []
        self._following.append((executors or 0, dict(parallelism)))
        self._follow()

    def advance(self, until_s: float) -> Window:
        """Simulate until a time."""
        start, until = self._now_ms, until_s * 1e3
        if not start < until < math.inf:
            raise RefusedError(
                f"the engine is at {self.now_s} s: advance it to a later time, not to {until_s} s"
            )
        while True:
            begins = self._next_start()
            unit = self._ready[0] if self._ready else None
            if unit is not None and (begins is None or unit[0] <= begins):
                if unit[0] >= until:
                    break
                heapq.heappop(self._ready)
                self._execute(unit[0], self._running[unit[1]], self._order[unit[2]])
            elif begins is not None and begins < until:
                self._begin(begins)
            else:
                break
        self._now_ms = until
        self._executors.settle(until)
        return self._observer.window(start, until, self._tasks, self._executors, self._ranges)

    def oracle(self, edges_s: Floats, *, utilisation: float = 1.0) -> Oracle:
        """Return the least cores that would have kept the interval between each of these times and the next."""
        pace = replace(self._pace, utilisation=utilisation)
        each = self._executors.cluster.cores_per_executor
        return oracle(self._dataflow, pace, edges_s, cores_per_executor=each)

    def _follow(self) -> None:
        """Have operators have the tasks that were requested, but for those whose executors are on their way."""
        for each in tuple(self._following):
            needed, tasks = each
            if needed <= self._executors.count:
                self._following.remove(each)
                if tasks.items() - self._tasks.items():
                    self._due_ms = self._change_ms
                self._tasks |= tasks

    def _next_start(self) -> float | None:
        """Return when the next timestep begins; None while that depends on one whose end is not known."""
        start = self._last_start_ms + self._pace.interval_ms
        if len(self._recent) < self._pace.in_flight:
            return start
        end = self._recent[0].end_ms
        return None if end is None else max(start, end)

    def _begin(self, start: float) -> None:
        """Begin a timestep, unless there is nothing to read."""
        self._last_start_ms = start
        self._executors.settle(start)
        self._follow()
        read, oldest = self._ranges.read(start)
        if not any(read.values()):
            self._observer.nothing(start)
            return
        rows: dict[str, float] = {**read}
        for name in self._order:
            inputs = self._dataflow.topology.inputs[name]
            rows[name] = sum(rows[each] * self._dataflow.selectivity(each, name) for each in inputs)
        number, self.timesteps = self.timesteps, self.timesteps + 1
        timestep = Timestep(number, start, oldest, rows, dict(self._tasks))
        timestep.ends_ms = dict.fromkeys(read, start + self._pace.driver_ms + self._due_ms)
        self._due_ms = 0.0
        self._running[number] = timestep
        self._recent.append(timestep)
        self._observer.began(timestep)
        for place, name in enumerate(self._order):
            if all(each in read for each in self._dataflow.topology.inputs[name]):
                self._may_run(timestep, place)

    def _may_run(self, timestep: Timestep, place: int) -> None:
        """Have an operator run if its inputs exist and it is done with the timestep before."""
        name, number = self._order[place], timestep.number
        inputs = self._dataflow.topology.inputs[name]
        if self._done_number[name] == number - 1 and all(e in timestep.ends_ms for e in inputs):
            ready = max(self._done_ms[name], *[timestep.ends_ms[each] for each in inputs])
            heapq.heappush(self._ready, (ready, number, place))

    def _execute(self, ready: float, timestep: Timestep, name: str) -> None:
        """Run the tasks of an operator for a timestep."""
        tasks, of = timestep.tasks[name], self._dataflow.operators[name]
        if (name, tasks) not in self._shares:
            self._shares[name, tasks] = shares(tasks, of.heavy)
        rows = timestep.rows[name] * self._shares[name, tasks]
        ms = of.fixed_ms + of.row_ms * rows
        if self._noise:
            ms *= np.exp(self._noise * self._random.standard_normal(tasks))
        launch, executors = self._pace.launch_ms, self._executors
        begin = max(ready, self._driver_ms)
        self._driver_ms = begin + launch * tasks
        starts, ends, cores = scheduled(
            begin, ms, launch, executors.free_ms, executors.speeds(begin)
        )
        executors.occupy(cores, ends)
        end = float(ends.max())
        self._observer.ran(Unit(name, begin, end, self._driver_ms, starts, ends, rows))
        timestep.ends_ms[name], self._done_ms[name] = end, end
        self._done_number[name] = timestep.number
        for place, each in enumerate(self._order):
            if name in self._dataflow.topology.inputs[each]:
                self._may_run(timestep, place)
            if each == name and timestep.number + 1 in self._running:
                self._may_run(self._running[timestep.number + 1], place)
        if all(each in timestep.ends_ms for each in self._order):
            timestep.end_ms = max(timestep.ends_ms.values())
            del self._running[timestep.number]
