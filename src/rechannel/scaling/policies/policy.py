"""What every policy sees of a stream, and what it answers. Pure.

A policy is a value: `decide` returns its advice and what it remembers, so that a run can be repeated, stored and
simulated. It advises; bounds, warm-up, confirmation and what becomes of the advice are not its own (`steering.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from rechannel.scaling.model.rates import Floats, Reports
from rechannel.scaling.model.topology import Topology

Memory: TypeAlias = Any
"""What a policy remembers: None at first, then whatever frozen value it returned last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """What the tasks of an operator received and took, in all timesteps of a window, in any order.

    Where they are many, a few points may stand for them, each with the mean rows and milliseconds of some.
    """

    rows: Floats
    """Rows of each task, shape (tasks,)."""
    ms: Floats
    """Milliseconds that it ran, shape (tasks,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What one operator did in a window."""

    reports: Reports
    blocked: float = 0.0
    """Largest share of the window that an instance waited for room in its output: back-pressure."""
    pressing: tuple[float, ...] = ()
    """Share of the window for which each instance caused back-pressure, by an engine that measures that (Heron)."""
    queued: tuple[float, ...] = ()
    """Records that wait in the input of each instance at the end of the window."""
    queued_before: tuple[float, ...] = ()
    """The same at its beginning."""
    tasks: Tasks | None = None
    """Of a micro-batch engine: its tasks one by one."""
    heaviest_bin: float | None = None
    """Share of the operator's rows that its heaviest bin received; None = not measured."""
    heaviest_key: float | None = None
    """Share of the operator's rows that its heaviest key received; None = not measured."""
    has_bins: bool = True
    """Whether its rows can go to other tasks; those of a source cannot."""
    most_tasks: int | None = None
    """Into how many tasks it can be divided at most: its bins; None = any number."""

    def busy(self, window_s: float) -> float:
        """Return the share of a window for which the busiest instance was useful."""
        useful = self.reports.useful_s
        return float(useful.max()) / window_s if len(useful) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """What reached a source, measured outside of the dataflow."""

    rate: float
    """Records per second that arrived, read or not."""
    backlog: float = 0.0
    """Records that have arrived and were not read at the end of the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """What a micro-batch engine runs on."""

    executors: int
    cores_per_executor: int
    busy: float = 0.0
    """Share of the core-seconds of the window in which tasks ran."""
    waiting_tasks: int = 0
    """Tasks that waited for a core: at the end of the window, or in the turn of its last timestep that they waited for
    longest."""
    waiting_s: float = 0.0
    """For how long they waited without a break."""
    idle_s: tuple[float, ...] = ()
    """For how long each idle executor has had no task."""
    interval_ms: float = 0.0
    """Between timesteps."""
    durations_ms: tuple[float, ...] = ()
    """What the timesteps of the window took."""
    in_flight: int = 1
    """Timesteps that may run at the same time."""
    cut: bool = True
    """Whether the window ends while a timestep runs, which then does not count, as it does in the simulator. Windows of
    a running stream go from one look at its sources to another."""
    driver_ms: float = 0.0
    """What the driver needs for a timestep, tasks apart."""
    launch_ms: float = 0.0
    """What the driver needs to start one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One policy interval of a stream."""

    start_s: float
    end_s: float
    topology: Topology
    activities: Mapping[str, Activity]
    """By operator; sources may be absent."""
    arrivals: Mapping[str, Arrivals]
    """By source."""
    cores: Cores | None = None
    """None for an engine whose instances have a core each."""

    @property
    def window_s(self) -> float:
        """The length of the window."""
        return self.end_s - self.start_s

    @property
    def parallelism(self) -> dict[str, int]:
        """Instances by operator."""
        return {name: each.reports.parallelism for name, each in self.activities.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a policy would have."""

    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Instances by operator; operators that are absent keep what they have. If executors are added, tasks for them
    wait for them: before, they would take turns on the old ones."""
    executors: int | None = None
    """None: as many as there are."""
    reason: str = ""
    """A sentence for people: what was measured, and what follows from it."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The figures that led to it, as JSON can hold them."""
    low: Mapping[str, int] = field(default_factory=dict)
    high: Mapping[str, int] = field(default_factory=dict)
    """The interval of each number, where the policy knows one."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """By operator whose rows are skewed, the change that helps it: "rebalance", "split" or "spread"."""


@runtime_checkable
class Policy(Protocol):
    """Decides how much parallelism a stream needs."""

    def decide(self, seen: Seen, memory: Memory) -> tuple[Advice | None, Memory]:
        """Return the advice after one more window, None for no change, and what to remember."""
        ...
