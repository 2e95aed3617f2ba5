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
"""A placement is written as [task, executor] pairs, because the keys of JSON objects are strings.
"""


class Combine(StrEnum):
    """Whether rows are pre-aggregated before the exchange (map-side combine)."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What every task of an operator needs (Spark's stage-level scheduling)."""

    cpus: int = 1
    """CPUs of an executor that a task occupies."""
    memory_mb: int | None = None
    """Memory of the executors that run the tasks. Needs dynamic allocation: Spark then requests
    other executors.
    """
    amounts: Mapping[str, float] = field(default_factory=dict)
    """Amounts of other resources, such as {"gpu": 0.5}."""

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
        """Pickle as JSON: a frozen mapping cannot be pickled."""
        return decode, (Resources, encode(self))


@dataclass(frozen=True, kw_only=True)
class OperatorConfiguration:
    """How one operator runs."""

    tasks: int
    """Number of Spark tasks in a timestep."""
    routing: Routing | None = None
    """Bin -> task of a stateful operator; None for a stateless one."""
    combine: Combine = Combine.AUTO
    """Whether senders combine the operator's input before the exchange."""
    combining: bool = True
    """What AUTO currently resolves to, from the reduction measured in earlier timesteps."""
    logic: int = 1
    """Version number of the operator's function."""
    resources: Resources | None = None
    """What each task needs; None for the session's defaults."""
    placement: Annotated[Mapping[int, str], PAIRS] = field(default_factory=dict)
    """Task -> executor id, of tasks that were placed on purpose; others stay where they ran last.
    """

    def __post_init__(self) -> None:
        """Freeze the mapping; check that tasks, routing and placement agree."""
        object.__setattr__(self, "placement", MappingProxyType(dict(self.placement)))
        if any(not 0 <= task < self.tasks for task in self.placement):
            msg = (
                f"the placement names tasks {sorted(self.placement)}, but the operator has tasks 0 to"
                f" {self.tasks - 1}"
            )
            raise ValueError(msg)
        if self.tasks < 1:
            msg = f"an operator needs at least one task, not {self.tasks}"
            raise ValueError(msg)
        if self.routing is not None and self.routing.tasks != self.tasks:
            msg = f"routing is for {self.routing.tasks} tasks, but the operator has {self.tasks}"
            raise ValueError(msg)

    @property
    def combines(self) -> bool:
        """Whether senders combine in this timestep."""
        return self.combining if self.combine is Combine.AUTO else self.combine is Combine.ON


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Everything physical about a timestep."""

    version: int = 1
    """Increases by one with every change."""
    operators: Mapping[str, OperatorConfiguration] = field(default_factory=dict)
    """By operator name."""
    interval_ms: int = 0
    """Time between the starts of timesteps; 0 means as soon as possible."""
    in_flight: int = 1
    """How many timesteps may run at once (1 = no pipelining)."""
    dataflow: int = 1
    """Version of the program; it increases when logic changes, or when branches are added or
    removed.
    """
    bounds: Mapping[str, int] = field(default_factory=dict)
    """Maximum number of rows (files, for a source of files) that a timestep reads from a source. A
    source that is not in it has its own bound.
    """
    byte_bounds: Mapping[str, int] = field(default_factory=dict)
    """Approximate number of bytes that a timestep reads from a source. Sources that are not in it
    share the setting.
    """
    executors: int | None = None
    """Number of executors to request; None for the session's own."""

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
        """Pickle as JSON: a frozen mapping cannot be pickled."""
        return decode, (Configuration, encode(self))

    def with_operator(self, name: str, operator: OperatorConfiguration) -> Configuration:
        """Return the next version, in which one operator runs differently."""
        return replace(self, version=self.version + 1, operators={**self.operators, name: operator})
