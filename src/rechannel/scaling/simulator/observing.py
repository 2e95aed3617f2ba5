"""What a simulated micro-batch engine reports of a window: timesteps and units of work that were done within it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rechannel.scaling.model.rates import Floats, Reports
from rechannel.scaling.model.timesteps import Pace
from rechannel.scaling.policies.policy import Activity, Arrivals, Cores, Seen, Tasks
from rechannel.scaling.simulator.dataflow import Dataflow
from rechannel.scaling.simulator.executors import Executors
from rechannel.scaling.simulator.ranges import Ranges
from rechannel.scaling.simulator.timesteps import BatchOperator
from rechannel.scaling.simulator.windows import Window


@dataclass(frozen=True, slots=True)
class Unit:
    """The tasks of an operator for one timestep. Times are milliseconds."""

    operator: str
    begin_ms: float
    end_ms: float
    launched_ms: float
    """When the last task could start, if there was a core for it."""
    starts_ms: Floats
    ends_ms: Floats
    rows: Floats


class _Timestep(Protocol):
    start_ms: float
    oldest_ms: float
    end_ms: float | None


class Observer:
    """Collects what happens, and tells it window by window."""

    def __init__(self, dataflow: Dataflow[BatchOperator], pace: Pace) -> None:
        """Begin with nothing."""
        self._dataflow, self._pace = dataflow, pace
        self._units: list[Unit] = []
        self._timesteps: list[_Timestep] = []
        self._empty_ms: list[float] = []
        self._sampled_ms = 0.0
        self._waited = 0.0, 0.0

    def began(self, timestep: _Timestep) -> None:
        """Note a timestep."""
        self._timesteps.append(timestep)

    def nothing(self, at_ms: float) -> None:
        """Note that there was nothing to read."""
        self._empty_ms.append(at_ms)

    def ran(self, unit: Unit) -> None:
        """Note the tasks of an operator."""
        self._units.append(unit)
        last = float(unit.starts_ms.max())
        if last > unit.launched_ms:
            since, until = self._waited
            self._waited = since if unit.begin_ms <= until else unit.begin_ms, max(until, last)

    def window(
        self,
        start: float,
        end: float,
        tasks: Mapping[str, int],
        executors: Executors,
        ranges: Ranges,
    ) -> Window:
        """Return the report of a window, in milliseconds, and keep what is not done at its end for the next."""
        done = [each for each in self._units if each.end_ms <= end]
        at, spans, latency, durations = self._latencies(end)
        late = ranges.late(end)
        seen = Seen(
            start_s=start / 1e3,
            end_s=end / 1e3,
            topology=self._dataflow.topology,
            activities={
                name: self._activity(name, number, [u for u in done if u.operator == name])
                for name, number in tasks.items()
            },
            arrivals={
                name: Arrivals(rate=rate, backlog=late[name])
                for name, rate in ranges.rates(start, end).items()
            },
            cores=self._cores(start, end, executors, durations),
        )
        self._units = [each for each in self._units if each.end_ms > end]
        return Window(
            seen=seen,
            at_s=at / 1e3,
            spans_s=spans / 1e3,
            latency_s=latency / 1e3,
            core_seconds=executors.core_seconds(start, end),
        )

    def _activity(self, name: str, number: int, units: list[Unit]) -> Activity:
        """Return what one operator did; only timesteps with its present number of tasks are in the reports."""
        alike = [each for each in units if len(each.rows) == number]
        rows = sum((each.rows for each in alike), np.zeros(number))
        useful = sum((each.ends_ms - each.starts_ms for each in alike), np.zeros(number)) / 1e3
        total, consumers = float(rows.sum()), self._dataflow.topology.consumers(name)
        reports = Reports(
            parallelism=number,
            records_in=rows,
            useful_s=useful,
            records_out={c: total * self._dataflow.selectivity(name, c) for c in consumers},
        )
        nothing = [np.zeros(0)]
        return Activity(
            reports=reports,
            tasks=Tasks(
                rows=np.concatenate([each.rows for each in units] or nothing),
                ms=np.concatenate([each.ends_ms - each.starts_ms for each in units] or nothing),
            ),
            heaviest_key=max(self._dataflow.operators[name].heavy, default=None),
        )

    def _cores(self, start: float, end: float, executors: Executors, durations: Floats) -> Cores:
        nothing = [np.zeros(0)]
        starts = np.concatenate([each.starts_ms for each in self._units] or nothing)
        ends = np.concatenate([each.ends_ms for each in self._units] or nothing)
        ran = float(np.maximum(np.minimum(ends, end) - np.maximum(starts, start), 0.0).sum())
        paid = executors.core_seconds(start, end)
        waits = sum(
            int((each.starts_ms > max(end, each.launched_ms)).sum()) for each in self._units
        )
        since, until = self._waited
        return Cores(
            executors=executors.count,
            cores_per_executor=executors.cluster.cores_per_executor,
            busy=min(1.0, ran / 1e3 / paid),
            waiting_tasks=waits,
            waiting_s=(end - since) / 1e3 if since <= end < until else 0.0,
            idle_s=executors.idle_s(end),
            interval_ms=self._pace.interval_ms,
            durations_ms=tuple(durations.tolist()),
            in_flight=self._pace.in_flight,
            driver_ms=self._pace.driver_ms,
            launch_ms=self._pace.launch_ms,
        )

    def _latencies(self, until: float) -> tuple[Floats, Floats, Floats, Floats]:
        """Return when latency was sampled, for how long each sample stands, the latencies, and durations of timesteps.

        A sample stands for the time since the one before. While there is nothing to read, latency is 0.
        """
        done = [
            (each.end_ms, each) for each in self._timesteps if (each.end_ms or until + 1) <= until
        ]
        self._timesteps = [each for each in self._timesteps if (each.end_ms or until + 1) > until]
        samples = [(end, end - each.oldest_ms) for end, each in done if end is not None]
        samples = sorted([*samples, *((at, 0.0) for at in self._empty_ms)])
        self._empty_ms.clear()
        at = np.maximum.accumulate(np.array([end for end, _ in samples]))
        spans = np.diff(at, prepend=self._sampled_ms)
        if samples:
            self._sampled_ms = float(at[-1])
        durations = np.array([end - each.start_ms for end, each in done if end is not None])
        return at, spans, np.array([late for _, late in samples]), durations
