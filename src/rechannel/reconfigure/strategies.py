"""How gently a change is made: how many bins move per timestep, how long to pause, and what a step may cost.

The strategies are Megaphone's (VLDB'19, section 4.4). A budget cuts every step of any of them further, by the
measured size of the bins (bytes) or by their measured cost (milliseconds).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from msgspec import Meta

from rechannel.model.codec import form
from rechannel.reconfigure.checked import Checked, Kinds, PositiveFloat, PositiveInt
from rechannel.reconfigure.grouping import Group, chunks, load_matching, matched, within
from rechannel.reconfigure.steps import BinMove, Route, Step

__all__ = ["all_at_once", "batched", "fluid", "optimized"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy(Checked, ABC):
    """What all strategies have."""

    kind = "strategy"

    gap: Annotated[int, Meta(ge=0, le=1_000_000, description="Timesteps between two steps.")] = 0
    budget_bytes: Annotated[
        PositiveInt | None, Meta(description="Most bytes of state that a timestep may move.")
    ] = None
    budget_ms: Annotated[
        PositiveFloat | None,
        Meta(description="Most milliseconds that moves may add to a timestep."),
    ] = None
    prepare: Annotated[
        bool,
        Meta(description="Fetch state and load functions before the first step."),
    ] = True

    @abstractmethod
    def groups(self, moves: Sequence[BinMove]) -> Iterator[Group]:
        """The moves of each step, before a budget cuts them further."""

    def __str__(self) -> str:
        """As it is written in Python, without fields that have their default."""
        usual = {one.name: one.default for one in fields(self)}
        given = {name: value for name, value in self.to_json().items() if name != "kind"}
        other = [f"{name}={value!r}" for name, value in given.items() if value != usual[name]]
        return f"{self.kind}({', '.join(other)})"


KINDS: Kinds[Strategy] = Kinds("strategy")
"""Every strategy."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class AllAtOnce(Strategy):
    """Everything at one timestep boundary."""

    kind = "all_at_once"

    def groups(self, moves: Sequence[BinMove]) -> Iterator[Group]:
        """Put all moves into one group."""
        yield tuple(moves)


@KINDS.register
@dataclass(frozen=True, slots=True)
class Batched(Strategy):
    """That many bins per step."""

    kind = "batched"

    bins: Annotated[int, Meta(ge=1, description="Bins per step.")] = 16

    def groups(self, moves: Sequence[BinMove]) -> Iterator[Group]:
        """Groups of `bins` moves."""
        return chunks(moves, self.bins)


@KINDS.register
@dataclass(frozen=True, slots=True)
class Fluid(Strategy):
    """One bin (or a few) per step."""

    kind = "fluid"

    bins: Annotated[int, Meta(ge=1, description="Bins per step.")] = 1

    def groups(self, moves: Sequence[BinMove]) -> Iterator[Group]:
        """Groups of `bins` moves."""
        return chunks(moves, self.bins)


@KINDS.register
@dataclass(frozen=True, slots=True)
class Optimized(Strategy):
    """Steps by maximum matching: in each step a task takes part in at most one transfer."""

    kind = "optimized"

    bins: Annotated[int, Meta(ge=1, description="Bins per transfer.")] = 1

    def __post_init__(self) -> None:
        """Load the library that finds matchings: in the thread that asks, since the driver's would be held up by it."""
        Strategy.__post_init__(self)
        load_matching()

    def groups(self, moves: Sequence[BinMove]) -> Iterator[Group]:
        """Groups by matching."""
        return matched(moves, self.bins)


all_at_once = AllAtOnce
batched = Batched
fluid = Fluid
optimized = Optimized


def steps_of(route: Route, strategy: Strategy, budget: float | None = None) -> tuple[Step, ...]:
    """The steps of a route. budget: most bytes that a step may move; a single bin is never cut."""
    groups = list(strategy.groups(route.moves))
    if budget is not None:
        groups = [part for group in groups for part in within(group, budget)]
    return route.in_groups(groups)


def from_json(data: Mapping[str, Any]) -> Strategy:
    """The strategy in JSON. Raises RefusedError naming the field that is wrong."""
    return KINDS.read(data)


form(Strategy, encode=Strategy.to_json, decode=from_json)
