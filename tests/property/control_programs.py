"""Controllers of the schedules: what they do follows from a seed, so that a twin knows it too.

A controller counts in its state how often it has begun. From that number follows its plan: which handler it sends to
which operators, blocking or not, with which changes. What its operations bring is added up in its state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

import rechannel as rc
from rechannel.control.controller import Control, Outcome, TaskReply
from rechannel.control.operation import Operation
from rechannel.control.triggers import Trigger
from rechannel.errors import RechannelError
from rechannel.kernels.protocol.control import ControlChannel, OperatorHandler, TaskView
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import Change
from tests.property.reconfigurations import random_strategy

REPLY_BYTES = 1_000

KINDS = (
    "rows",
    "rows",
    "rows",
    "state",
    "state",
    "heaviest",
    "heaviest",
    "raises",
    "oversized",
    "strange",
)
"""What handlers do. The last three fail in the tasks of one operator."""

FAILING = ("raises", "oversized", "strange")

Count = dict[str, int]

MakeChange = Callable[[Random, Configuration], Change]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a controller does when it begins for the n-th time. handler: "" = it sends no operation."""

    handler: str
    target: str = ""
    """Where its handlers fail."""
    operators: tuple[str, ...] | None = None
    blocking: bool = False
    changes: bool = False
    requests: int = 0

    def runs_in(self, operator: str) -> bool:
        """Whether its handlers run in the tasks of an operator."""
        return self.operators is None or operator in self.operators

    def fails_in(self, operator: str) -> bool:
        """Whether they fail there."""
        return self.handler in FAILING and operator == self.target


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What there is to look at. keyed: operators with as many tasks as the Configuration says."""

    seed: int
    sources: tuple[str, ...]
    keyed: tuple[str, ...]
    change: MakeChange
    seconds: float = 0.02
    """Of triggers that go by time."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Whatever may be named in an operation."""
        return *self.sources, *self.keyed

    def plan(self, name: str, number: int) -> Plan:
        """Return what a controller does."""
        rng = self.chance(name, number)
        blocking = rng.random() < 0.4
        some = tuple(n for n in self.operators if rng.random() < 0.6)
        return Plan(
            handler=rng.choice(KINDS) if rng.random() < 0.9 else "",
            target=rng.choice(self.operators),
            operators=None if rng.random() < 0.5 else some,
            blocking=blocking,
            changes=blocking and rng.random() < 0.5,
            requests=rng.choice((0, 0, 0, 0, 1, 2)),
        )

    def chance(self, name: str, number: int) -> Random:
        """Return what decides on a plan."""
        return Random(f"{self.seed} {name} {number}")


# The operator side -------------------------------------------------------------------------------


@dataclass
class Looking(OperatorHandler):
    """Replies with numbers that can be added up: how many tasks, rows of sources, and what is odd."""

    kind: str
    target: str
    sources: tuple[str, ...]
    keyed: tuple[str, ...]
    channels: int = 0

    def on_next(self, task: TaskView, channel: ControlChannel) -> None:
        """A message came."""
        self.channels += 1

    def on_complete(self, task: TaskView) -> Any:
        """All of them are here."""
        if self.kind in FAILING and task.operator == self.target:
            return self.fail()
        odd = bool(self.channels) if task.operator in self.sources else False
        odd |= task.operator in self.keyed and not self.channels
        reply = {"tasks": 1, "odd": int(odd)}
        if task.operator in self.sources:
            reply["rows"] = task.rows_in
        return {**reply, **self.look(task)}

    def look(self, task: TaskView) -> Count:
        """What it looks for beside that."""
        del task
        return {}

    def fail(self) -> Any:
        """Do what no handler may."""
        if self.kind == "raises":
            raise ZeroDivisionError(self.target)
        return object() if self.kind == "strange" else "x" * (2 * REPLY_BYTES)

    def merge(self, one: Count, other: Count) -> Count:
        """Add up."""
        return added(one, other)


class Reading(Looking):
    """Reads the state."""

    reads_state = True

    def look(self, task: TaskView) -> Count:
        """How many rows it has, unless there are too many to read."""
        if task.read_state is None:
            return {}
        try:
            return {"state": task.read_state().num_rows}
        except ValueError:
            return {"unread": 1}


class Weighing(Looking):
    """Looks at the heaviest keys."""

    heaviest = 2

    def look(self, task: TaskView) -> Count:
        """They have rows, the first one most, and together no more than there are."""
        rows = [key.rows for key in task.heaviest]
        wrong = rows != sorted(rows, reverse=True) or sum(rows) > task.rows_in or len(rows) > 2
        return {"heavy": len(rows), "wrong": int(wrong)}


HANDLERS: Mapping[str, type[Looking]] = {"state": Reading, "heaviest": Weighing}


def added(one: Mapping[str, int], other: Mapping[str, int]) -> Count:
    """Return sums."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in sorted({*one, *other})}


# The controller's side ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Counts:
    """State of a controller."""

    begun: int = 0
    completed: int = 0
    last: int = 0
    """Timestep of its latest operation."""
    replies: int = 0
    """Calls of `on_next`."""
    failed: int = 0
    sums: dict[str, Count] = field(default_factory=dict)
    """What its handlers replied, by operator."""

    def begin(self) -> Counts:
        """After `on_begin`."""
        return replace(self, begun=self.begun + 1)

    def hear(self) -> Counts:
        """After a call of `on_next`."""
        return replace(self, replies=self.replies + 1)

    def complete(self, timestep: int, replies: Mapping[str, Count], failed: int) -> Counts:
        """After `on_complete`."""
        sums = dict(self.sums)
        for operator, reply in replies.items():
            sums[operator] = added(sums.get(operator, {}), reply)
        return replace(
            self,
            completed=self.completed + 1,
            last=timestep,
            failed=self.failed + failed,
            sums=dict(sorted(sums.items())),
        )


class Planned(rc.control.Controller):
    """Follows its plan; its state is plain JSON. fails: whether a callback raises this time."""

    typed = False

    def __init__(
        self, name: str, stage: Stage, trigger: Trigger, fails: Callable[[str], bool]
    ) -> None:
        self.name, self.stage, self.fails = name, stage, fails
        self.trigger = trigger

    def on_init(self) -> Any:
        return self.kept(Counts())

    def kept(self, counts: Counts) -> Any:
        """A state as this controller keeps it."""
        return counts if self.typed else asdict(counts)

    def known(self, control: Control[Any]) -> Counts:
        """The state."""
        return control.state if self.typed else Counts(**control.state)

    def fail(self, callback: str, control: Control[Any]) -> None:
        """Raise now and then, after the state has been spoilt."""
        if self.fails(callback):
            control.state = self.kept(Counts(begun=1_000_000))
            raise KeyError(callback)

    def on_begin(self, control: Control[Any]) -> Operation | None:
        number = self.known(control).begun
        control.state = self.kept(self.known(control).begin())
        self.fail("begin", control)
        plan, rng = self.stage.plan(self.name, number), self.stage.chance(self.name, -1 - number)
        for _ in range(plan.requests):
            change = self.change(rng, control)
            if change is not None:
                control.reconfigure(
                    change,
                    strategy=random_strategy(rng),
                    supersede=rng.random() < 0.3,
                    reason=f"plan {number}",
                )
        control.note(f"plan {number}")
        if not plan.handler:
            return None
        kind = HANDLERS.get(plan.handler, Looking)
        handler = kind(plan.handler, plan.target, self.stage.sources, self.stage.keyed)
        change = self.change(rng, control) if plan.changes else None
        return rc.control.operation(
            handler,
            operators=plan.operators,
            blocking=plan.blocking,
            change=change,
            strategy=None if change is None or rng.random() < 0.5 else random_strategy(rng),
            reply_bytes=REPLY_BYTES,
            seconds=60.0,
        )

    def change(self, rng: Random, control: Control[Any]) -> Change | None:
        """A change of the stream; None where there can be no such change."""
        try:
            return self.stage.change(rng, control.configuration)
        except RechannelError:
            return None

    def on_next(self, control: Control[Any], reply: TaskReply) -> None:
        control.state = self.kept(self.known(control).hear())

    def on_complete(self, control: Control[Any], outcome: Outcome) -> None:
        self.fail("complete", control)
        counts = self.known(control).complete(outcome.timestep, outcome.replies, outcome.failed)
        control.state = self.kept(counts)

    def on_dispose(self, control: Control[Any]) -> None:
        self.fail("dispose", control)


class Typed(Planned):
    """Its state is a dataclass."""

    typed = True


def random_trigger(rng: Random, seconds: float) -> Trigger:
    """Any trigger."""
    return rng.choice(
        (
            rc.control.every(timesteps=1),
            rc.control.every(timesteps=rng.randint(1, 3)),
            rc.control.every(seconds=seconds),
            rc.control.when("rows_in", above=rng.choice((-1, 2))),
            rc.control.on("change_done"),
            rc.control.by_hand(),
        )
    )
