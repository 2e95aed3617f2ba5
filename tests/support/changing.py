"""A stream on paper: the coordinator's borders one behind the other, without an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rechannel import changes
from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.routing import Routing
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.changes.together import one_change
from rechannel.reconfigure.coordination import Coordination, Now
from rechannel.reconfigure.coordinator import Decision, decide, resume, settled, wants_preparing
from rechannel.reconfigure.events import Event, Prepared, event_from_json
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.requests import Request, abort, accept
from rechannel.reconfigure.steps import Sizes, Step
from rechannel.reconfigure.strategies import AllAtOnce, Strategy
from rechannel.reconfigure.stream_facts import StreamFacts


def keyed(tasks: int = 2, bins: int = 8, **more: Any) -> OperatorConfiguration:
    """An operator with state, its bins even."""
    return OperatorConfiguration(tasks=tasks, routing=Routing.even(bins=bins, tasks=tasks), **more)


def configuration(**operators: OperatorConfiguration) -> Configuration:
    """A Configuration of these operators, behind a source."""
    return Configuration(operators={"in": OperatorConfiguration(tasks=2), **operators})


def two() -> Configuration:
    """Two operators with state, of eight bins and two tasks each."""
    return configuration(counts=keyed(), sums=keyed())


def sized(where: Configuration, size: float) -> Sizes:
    """As many bytes in every bin."""
    return Sizes(
        bins={
            name: (operator.routing.starts, (size,) * operator.routing.bins)
            for name, operator in where.operators.items()
            if operator.routing is not None
        }
    )


def program(version: int = 2, **more: Any) -> ChangeProgram:
    """Another version of the dataflow."""
    return ChangeProgram(version=version, text=f"program {version}", **more)


def budget_of(strategy: Strategy) -> float | None:
    """What the engine says when a millisecond moves 100 bytes."""
    bounds: list[float] = [strategy.budget_bytes] if strategy.budget_bytes is not None else []
    bounds += [strategy.budget_ms * 100] if strategy.budget_ms is not None else []
    return min(bounds, default=None)


@dataclass
class Paper:
    """A stream of which only the Configuration is real.

    timestep: the next one. size: bytes in every bin. borders: ids of those that made a step, by timestep.
    """

    configuration: Configuration = field(default_factory=two)
    state: Coordination = field(default_factory=Coordination)
    timestep: int = 1
    time_ms: int = 0
    event_times: dict[str, int] = field(default_factory=dict)
    drained: bool = True
    idle: bool = False
    facts: StreamFacts = field(default_factory=StreamFacts)
    size: float = 10.0
    borders: dict[int, list[str]] = field(default_factory=dict)
    kept: dict[int, Configuration] = field(default_factory=dict)

    @property
    def now(self) -> Now:
        """What the coordinator is told."""
        return Now(
            timestep=self.timestep,
            time_ms=self.time_ms,
            configuration=self.configuration,
            event_times=self.event_times,
            drained=self.drained,
            idle=self.idle,
            facts=self.facts,
            sizes=sized(self.configuration, self.size),
            budget=budget_of,
        )

    def fold(self, events: Sequence[Event]) -> None:
        """Let events happen, as the journal does: read back from JSON."""
        for event in events:
            self.state = self.state.after(event_from_json(event.to_json()))
        self.state = decode(Coordination, encode(self.state))

    def ask(
        self,
        change: Change | Sequence[Change],
        strategy: Strategy | None = None,
        *,
        at: int | None = None,
        at_ms: int | None = None,
        at_event: EventMoment | None = None,
        steps: tuple[Step, ...] | None = None,
        supersede: bool = False,
        ready: bool = True,
    ) -> str:
        """Ask for a change, and have it prepared unless it shall wait."""
        request = Request(
            change=one_change(change),
            strategy=strategy or AllAtOnce(),
            at_timestep=at,
            at_ms=at_ms,
            at_event=at_event,
            steps=steps,
            supersede=supersede,
        )
        self.fold((accept(self.state, request, self.now),))
        id_ = self.state.records[-1].id
        if ready and at is None and at_ms is None and at_event is None:
            self.prepare(id_)
        return id_

    def prepare(self, *ids: str) -> None:
        """What waits for its preparation is prepared."""
        for record in wants_preparing(self.state):
            if record.id in ids:
                self.fold([Prepared(id=record.id, time_ms=self.time_ms)])

    def abort(self, id_: str) -> None:
        """End one, or lead it back."""
        self.fold(abort(self.state, id_, self.now, "aborted"))

    def resume(self, impossible: Callable[[Record], str | None] = lambda _: None) -> None:
        """Another driver takes over."""
        self.fold(resume(self.state, self.now, impossible))

    def decide(self) -> Decision:
        """How the next timestep would begin."""
        return decide(self.state, self.now)

    def begin(self) -> list[str]:
        """Begin a timestep; ids of those that made a step. Nothing begins where the decision is to hold."""
        decision = self.decide()
        if decision.hold:
            return []
        self.fold(decision.events)
        self.fold(decision.steps)
        self.configuration = decision.configuration
        self.kept[self.timestep] = decision.configuration
        stepped = [step.id for step in decision.steps]
        self.borders[self.timestep] = stepped
        self.timestep += 1
        return stepped

    def commit(self, timestep: int | None = None) -> None:
        """Commit a timestep (default: the latest)."""
        self.fold(settled(self.state, timestep or self.timestep - 1, self.time_ms))

    def step(self, timesteps: int = 1) -> list[list[str]]:
        """Timesteps one behind the other; ids of those that made a step, by timestep."""
        made = []
        for _ in range(timesteps):
            made.append(self.begin())
            self.commit()
        return made

    def owners(self, operator: str = "counts") -> list[int]:
        """Tasks of an operator's bins."""
        routing = self.configuration.operators[operator].routing
        assert routing is not None
        return list(routing.owners)

    def phase(self, id_: str) -> str:
        """How far one is."""
        return str(self.state.find(id_).phase)

    def phases(self) -> Mapping[str, str]:
        """How far all are."""
        return {record.id: str(record.phase) for record in self.state.records}


EVEN = [0, 0, 0, 0, 1, 1, 1, 1]
"""Tasks of the eight bins of an operator, before anything."""

ALL_TO_1 = changes.move("counts", [0, 1, 2, 3], 1)


def moved(paper: Paper, operator: str = "counts") -> int:
    """How many bins are elsewhere than in the beginning."""
    return sum(a != b for a, b in zip(paper.owners(operator), EVEN, strict=True))
