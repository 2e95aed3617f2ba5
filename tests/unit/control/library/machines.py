"""A stream whose tasks take what a test says, on executors that the test makes: as its telemetry would tell it.

Rows, tasks and changes are real. Only times are not: the events of each timestep are given those of a list schedule,
before anything reads them. So progress, tasks and profile agree, and nothing waits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

import pytest

import rechannel as rc
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.model.configuration import Combine, Configuration
from rechannel.telemetry.events import Event, TimestepCommitted, TimestepStarted
from rechannel.telemetry.hub import Hub
from rechannel.telemetry.task_finished import SparkMetrics, TaskFinished
from rechannel.testing import Harness, ManualClock, script

Cost = Callable[[str, int, int], float]
"""Milliseconds of a task: (operator, task, rows)."""


@dataclass
class Machines:
    """Executors with one core each, and a driver."""

    cost: Cost
    slowness: dict[str, float]
    """By executor: times that everything takes there."""
    launch_ms: float = 1.0
    driver_ms: float = 10.0
    places: Callable[[], dict[str, dict[int, str]]] = dict
    committed_ms: float = 0.0
    began: dict[int, float] = field(default_factory=dict)

    def timed(self, events: tuple[Event, ...]) -> list[Event]:
        """Return events with the times of the machines."""
        if events and isinstance(events[0], TimestepStarted):
            self.began[events[0].timestep] = float(events[0].at_ms)
        if not (events and isinstance(events[-1], TimestepCommitted)):
            return list(events)
        *tasks, commit = events
        assert isinstance(commit, TimestepCommitted)
        began = self.began[commit.timestep]
        made, end = self.scheduled([t for t in tasks if isinstance(t, TaskFinished)], began)
        self.committed_ms = end + self.driver_ms / 2
        plan, release = self.driver_ms / 2, 0.0
        phases = {"plan": plan, "run": end - began - plan, "commit": plan, "release": release}
        done = replace(
            commit,
            at_ms=int(self.committed_ms),
            duration_ms=self.committed_ms - began,
            phases=phases,
        )
        return [*made, done]

    def scheduled(
        self, tasks: list[TaskFinished], began: float
    ) -> tuple[list[TaskFinished], float]:
        """Return the tasks, one operator after the other, and when the last one ends."""
        now, places, made = began + self.driver_ms / 2, self.places(), list[TaskFinished]()
        ordered = sorted(tasks, key=lambda task: task.bins is not None)
        for operator in dict.fromkeys(task.operator for task in ordered):
            free = {executor: [now] for executor in self.slowness}
            launched = now
            for task in (each for each in tasks if each.operator == operator):
                names = list(self.slowness)
                at = places.get(operator, {}).get(task.task, names[task.task % len(names)])
                at = at if at in free else names[0]
                launched += self.launch_ms
                start = max(launched, heappop(free[at]))
                took = self.slowness[at] * self.cost(operator, task.task, task.rows_in)
                heappush(free[at], start + took)
                now = max(now, start + took)
                made.append(_task(task, at, start, start + took))
        return made, now


def _task(task: TaskFinished, executor: str, start: float, end: float) -> TaskFinished:
    spark = SparkMetrics(
        stage=0,
        partition=task.task,
        executor=executor,
        host=executor,
        launch_ms=int(start),
        finish_ms=int(end),
        run_ms=end - start,
    )
    timed = replace(task, started_ms=start, finished_ms=end, ms={"process": end - start})
    return timed.measured(spark)


class Flight:
    """A stream under Autopilot, or without it, on such machines. Rows arrive at a rate; `key` makes them."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        machines: Machines,
        *,
        rows_per_second: int,
        tasks: int = 4,
        bins: int = 64,
        interval_ms: int = 1_000,
        combine: Combine = Combine.OFF,
        key: Callable[[int], int] = lambda number: number % 64,
        batches: list[int] | None = None,
        piloted: bool = True,
        others: tuple[rc.control.Controller, ...] = (),
        **goal: Any,
    ) -> None:
        """batches: rows of each timestep, whatever time has passed; None = as they arrive.

        others: controllers beside it. goal: of Autopilot.
        """
        self.machines, self.rate, self.key, self.interval_ms = (
            machines,
            rows_per_second,
            key,
            interval_ms,
        )
        see = Hub._see

        def timed(hub: Hub, *events: Event) -> None:
            see(hub, *machines.timed(events))

        monkeypatch.setattr(Hub, "_see", timed)
        self.clock = ManualClock()
        self.rows = script("k bigint")
        cluster = FixedCluster(alive=[Executor(id=e, host=e, cores=1) for e in machines.slowness])
        keyed = rc.read().memory(self.rows, name="in").key_by("k")
        counts = keyed.aggregate(n=rc.aggregates.count(), name="counts")

        def configured(configuration: Configuration) -> Configuration:
            made = replace(configuration.operators["counts"], combine=combine)
            return replace(configuration, operators={**configuration.operators, "counts": made})

        self.stream = Harness(
            counts.write.memory("out"),
            clock=self.clock,
            settings=rc.Settings(interval_ms=interval_ms, tasks=tasks, bins=bins),
            configure=configured,
            cluster=cluster,
        )
        pilot = rc.control.library.Autopilot(
            **{
                "cores_per_executor": 1,
                "steering": {"interval_s": 4.0, "warm_up_s": 1.0, "down_delay_s": 8.0},
                **goal,
            }
        )
        installed = [rc.control.install(pilot, name="pilot", seconds=60.0)] if piloted else []
        self.process = self.stream.start(controllers=[*installed, *others])
        machines.places = lambda: {
            name: dict(at) for name, at in self.process.runner.placed().tasks.items()
        }
        self.number = 0
        self.batches = None if batches is None else iter(batches)
        self.due = self.clock.now_ms

    def run(self, timesteps: int) -> list[float]:
        """Run so many timesteps. Returns the milliseconds of each."""
        return list(self.each(timesteps))

    def each(self, timesteps: int) -> Iterator[float]:
        """The same, one at a time."""
        for _ in range(timesteps):
            came = int((self.clock.now_ms - self.due) * self.rate / 1e3) or self.rate
            came = came if self.batches is None else next(self.batches)
            self.due = self.clock.now_ms
            self.rows.push([{"k": self.key(self.number + n)} for n in range(came)])
            self.number += came
            began = self.clock.now_ms
            self.process.run()
            yield self.machines.committed_ms - began
            interval = self.configuration.interval_ms
            self.clock.pass_until(max(self.machines.committed_ms, began + interval))

    @property
    def configuration(self) -> Configuration:
        return self.process.position.configuration
