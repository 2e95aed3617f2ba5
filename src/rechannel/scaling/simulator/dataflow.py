"""A dataflow to simulate, as values: what arrives where, and who reads whom. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats
from rechannel.scaling.model.topology import Topology
from rechannel.scaling.simulator.instances import check_selectivity
from rechannel.scaling.simulator.loads import Load


class Emitting(Protocol):
    """What every operator says, whatever engine it is for."""

    @property
    def selectivity(self) -> Mapping[str, float]:
        """Records sent per record processed, by consumer; 1 for one that is absent."""
        ...


AnyOperator = TypeVar("AnyOperator", bound=Emitting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records arrive."""

    load: Load
    limit: float = math.inf
    """Records per second that can be read."""
    keeps: bool = True
    """Whether a record that could not be read stays until it can be. False: a generator that stands still while it is
    blocked, and never makes up for it."""
    selectivity: Mapping[str, float] = field(default_factory=dict)
    """Records sent per record read, by consumer; 1 for one that is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow(Generic[AnyOperator]):
    """Operators, sources, and who reads whom."""

    topology: Topology
    sources: Mapping[str, Source]
    operators: Mapping[str, AnyOperator]

    def __post_init__(self) -> None:
        """Check that every name is there once. Raises RefusedError."""
        readers = set(self.topology.operators) - set(self.topology.sources)
        if set(self.sources) != set(self.topology.sources) or set(self.operators) != readers:
            msg = (
                f"sources {sorted(self.sources)} and operators {sorted(self.operators)}: the topology has sources"
                f" {sorted(self.topology.sources)} and operators {sorted(readers)}"
            )
            raise RefusedError(msg)
        emits = {name: each.selectivity for name, each in self.sources.items()}
        emits |= {name: each.selectivity for name, each in self.operators.items()}
        for name, selectivity in emits.items():
            check_selectivity(name, self.topology.consumers(name), selectivity)

    def selectivity(self, producer: str, consumer: str) -> float:
        """Return the records that a consumer receives for each that its producer processes."""
        if producer in self.sources:
            return self.sources[producer].selectivity.get(consumer, 1.0)
        return self.operators[producer].selectivity.get(consumer, 1.0)

    def demand(self, edges_s: Floats) -> dict[str, Floats]:
        """Return the mean records per second that would reach each operator between the edges: shape (spans,)."""
        spans, rates = np.diff(edges_s), dict[str, Floats]()
        for name in self.topology.operators:
            if name in self.sources:
                rates[name] = self.sources[name].load.arrivals(edges_s) / spans
            else:
                inputs = self.topology.inputs[name]
                rates[name] = sum(
                    (rates[each] * self.selectivity(each, name) for each in inputs),
                    np.zeros(len(spans)),
                )
        return rates
