"""The Configuration: everything physical about a timestep, as one immutable value.

A timestep runs under exactly one Configuration. A change is another Configuration with the timestep from
which it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from rechannel.model.routing import Routing


class Combine(StrEnum):
    """Whether rows are pre-aggregated before the exchange (map-side combine)."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, kw_only=True)
class OperatorConfiguration:
    """How one operator runs.

    tasks: number of Spark tasks in a timestep.
    routing: bin -> task of a stateful operator; None for a stateless one.
    combine: map-side combine of what the operator receives.
    combining: what AUTO currently resolves to, decided from the reduction measured in earlier timesteps.
    logic: version number of the operator's function.
    """

    tasks: int
    routing: Routing | None = None
    combine: Combine = Combine.AUTO
    combining: bool = True
    logic: int = 1

    def __post_init__(self) -> None:
        """Check that tasks and routing agree."""
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

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "tasks": self.tasks,
            "routing": self.routing.to_json() if self.routing else None,
            "combine": str(self.combine),
            "combining": self.combining,
            "logic": self.logic,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> OperatorConfiguration:
        """Invert `to_json`."""
        routing = data["routing"]
        return cls(
            tasks=data["tasks"],
            routing=Routing.from_json(routing) if routing else None,
            combine=Combine(data["combine"]),
            combining=data["combining"],
            logic=data["logic"],
        )


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Everything physical about a timestep.

    version: grows by one with every change.
    operators: by operator name.
    interval_ms: distance between timestep starts; 0 means as soon as possible.
    in_flight: how many timesteps may be under way at once (1 = no pipelining).
    """

    version: int = 1
    operators: Mapping[str, OperatorConfiguration] = field(default_factory=dict)
    interval_ms: int = 0
    in_flight: int = 1

    def __post_init__(self) -> None:
        """Freeze the mapping and check the numbers."""
        object.__setattr__(self, "operators", MappingProxyType(dict(self.operators)))
        if self.interval_ms < 0 or self.in_flight < 1:
            msg = "interval_ms must be >= 0 and in_flight >= 1"
            raise ValueError(msg)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as JSON: the frozen mapping cannot be pickled."""
        return (Configuration.from_json, (self.to_json(),))

    def with_operator(self, name: str, operator: OperatorConfiguration) -> Configuration:
        """A next version in which one operator runs differently."""
        return replace(self, version=self.version + 1, operators={**self.operators, name: operator})

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "version": self.version,
            "operators": {k: v.to_json() for k, v in self.operators.items()},
            "interval_ms": self.interval_ms,
            "in_flight": self.in_flight,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Configuration:
        """Invert `to_json`."""
        return cls(
            version=data["version"],
            operators={k: OperatorConfiguration.from_json(v) for k, v in data["operators"].items()},
            interval_ms=data["interval_ms"],
            in_flight=data["in_flight"],
        )
