"""The Configuration: everything physical about a timestep, as one immutable value.

A timestep runs under exactly one Configuration. A change is another Configuration with the timestep from
which it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

from rechannel.model.codec import Json, decode, encode, written
from rechannel.model.routing import Routing


def _pairs(placement: Mapping[int, str]) -> Json:
    return [[task, where] for task, where in sorted(placement.items())]


def _placement(data: Json) -> Mapping[int, str]:
    return {int(task): where for task, where in data}


PAIRS = written(encode=_pairs, decode=_placement)
"""Keys of JSON objects are texts, so a placement is written as [task, executor] pairs."""


class Combine(StrEnum):
    """Whether rows are pre-aggregated before the exchange (map-side combine)."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What every task of an operator needs (Spark's stage-level scheduling).

    cpus: CPUs of an executor that a task occupies. amounts: of other resources, such as {"gpu": 0.5}.
    memory_mb: memory of the executors that run it; needs dynamic allocation, as Spark then asks for other
    executors.
    """

    cpus: int = 1
    memory_mb: int | None = None
    amounts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the mapping and check the numbers."""
        object.__setattr__(self, "amounts", MappingProxyType(dict(self.amounts)))
        if self.cpus < 1 or (self.memory_mb is not None and self.memory_mb < 1):
            msg = f"a task needs at least 1 CPU and 1 MB, not {self.cpus} and {self.memory_mb}"
            raise ValueError(msg)
        if any(amount <= 0 for amount in self.amounts.values()):
            msg = f"amounts of resources must be positive: {dict(self.amounts)}"
            raise ValueError(msg)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as JSON: the frozen mapping cannot be pickled."""
        return decode, (Resources, encode(self))


@dataclass(frozen=True, kw_only=True)
class OperatorConfiguration:
    """How one operator runs.

    tasks: number of Spark tasks in a timestep.
    routing: bin -> task of a stateful operator; None for a stateless one.
    combine: map-side combine of what the operator receives.
    combining: what AUTO currently resolves to, decided from the reduction measured in earlier timesteps.
    logic: version number of the operator's function.
    resources: what each task needs; None = as the session has it.
    placement: task -> executor id, for tasks that were placed on purpose; others stay where they ran last.
    """

    tasks: int
    routing: Routing | None = None
    combine: Combine = Combine.AUTO
    combining: bool = True
    logic: int = 1
    resources: Resources | None = None
    placement: Annotated[Mapping[int, str], PAIRS] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Freeze the mapping; check that tasks, routing and placement agree."""
        object.__setattr__(self, "placement", MappingProxyType(dict(self.placement)))
        if any(not 0 <= task < self.tasks for task in self.placement):
            msg = f"placed are tasks {sorted(self.placement)}, the operator has {self.tasks}"
            raise ValueError(msg)
        if self.tasks < 1:
            msg = f"an operator needs at least one task, not {self.tasks}"
            raise ValueError(msg)
        if self.routing is not None and self.routing.tasks != self.tasks:
            msg = f"routing is for {self.routing.tasks} tasks, the operator has {self.tasks}"
            raise ValueError(msg)

    @property
    def combines(self) -> bool:
        """Whether senders combine in this timestep."""
        return self.combining if self.combine is Combine.AUTO else self.combine is Combine.ON


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Everything physical about a timestep.

    version: grows by one with every change.
    operators: by operator name.
    interval_ms: distance between timestep starts; 0 means as soon as possible.
    in_flight: how many timesteps may be under way at once (1 = no pipelining).
    dataflow: version of the program; it grows when logic changes or branches come and go.
    bounds: most rows (files, for a source of files) that a timestep takes of a source; sources without one follow
        their own.
    byte_bounds: about how many bytes a timestep takes of a source; sources without one share what the settings say.
    executors: how many executors are asked for; None = as the session has them.
    """

    version: int = 1
    operators: Mapping[str, OperatorConfiguration] = field(default_factory=dict)
    interval_ms: int = 0
    in_flight: int = 1
    dataflow: int = 1
    bounds: Mapping[str, int] = field(default_factory=dict)
    byte_bounds: Mapping[str, int] = field(default_factory=dict)
    executors: int | None = None

    def __post_init__(self) -> None:
        """Freeze the mappings and check the numbers."""
        object.__setattr__(self, "operators", MappingProxyType(dict(self.operators)))
        object.__setattr__(self, "bounds", MappingProxyType(dict(self.bounds)))
        if self.interval_ms < 0 or self.in_flight < 1:
            msg = "interval_ms must be >= 0 and in_flight >= 1"
            raise ValueError(msg)
        object.__setattr__(self, "byte_bounds", MappingProxyType(dict(self.byte_bounds)))
        bounds = (*self.bounds.values(), *self.byte_bounds.values())
        if any(bound < 1 for bound in bounds) or (self.executors or 1) < 1:
            msg = "bounds of a timestep and the number of executors must be at least 1"
            raise ValueError(msg)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as JSON: the frozen mapping cannot be pickled."""
        return decode, (Configuration, encode(self))

    def with_operator(self, name: str, operator: OperatorConfiguration) -> Configuration:
        """A next version in which one operator runs differently."""
        return replace(self, version=self.version + 1, operators={**self.operators, name: operator})
