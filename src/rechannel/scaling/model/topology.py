"""Operators and who reads whom: the logical dataflow without its cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from rechannel.errors import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """A directed acyclic graph of operators, with any number of sources and sinks. `topology` makes one."""

    operators: tuple[str, ...]
    """In topological order: no operator stands before one whose output it reads."""
    inputs: Mapping[str, tuple[str, ...]]
    """By operator, the operators whose output it reads, each once."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Operators that read no other."""
        return tuple(name for name in self.operators if not self.inputs[name])

    @property
    def sinks(self) -> tuple[str, ...]:
        """Operators that no other reads."""
        read = {name for names in self.inputs.values() for name in names}
        return tuple(name for name in self.operators if name not in read)

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the operators that read the output of one."""
        return tuple(each for each in self.operators if name in self.inputs[each])


def topology(edges: Iterable[tuple[str, str]], operators: Iterable[str] = ()) -> Topology:
    """Return the graph of edges (producer, consumer). operators: names, among them those without an edge.

    Raises RefusedError if there is no operator, or an operator reads its own output, directly or not.
    """
    inputs: dict[str, dict[str, None]] = {name: {} for name in operators}
    for producer, consumer in edges:
        inputs.setdefault(producer, {})
        inputs.setdefault(consumer, {})[producer] = None
    if not inputs:
        raise RefusedError("the topology has no operators: give at least one edge or operator")
    try:
        order = tuple(
            TopologicalSorter({name: [*of] for name, of in inputs.items()}).static_order()
        )
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        msg = f"the topology has a cycle, {circle}: parallelism is computed for acyclic dataflows only"
        raise RefusedError(msg) from None
    return Topology(operators=order, inputs={name: tuple(inputs[name]) for name in order})
