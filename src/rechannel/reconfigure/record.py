"""One reconfiguration from request to end, as a value: the fold of its events. Pure.

waiting --prepared--> ready --planned--> moving --all steps committed--> done
   |                    |                  |  \\--superseded by another--> superseded
   |                    |                  \\--reversed--> reversing --all steps committed--> undone
   \\--aborted, failed--/

A driver that starts with the previous program undoes what is done: done --finished--> undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any

from rechannel.model.codec import ABSENT, decode
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.events import (
    Event,
    Finished,
    Planned,
    Prepared,
    Requested,
    Resumed,
    Reversed,
    Stepped,
)
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.steps import Step
from rechannel.reconfigure.strategies import Strategy


class Phase(StrEnum):
    """How far a reconfiguration is."""

    WAITING = "waiting"
    READY = "ready"
    MOVING = "moving"
    REVERSING = "reversing"
    DONE = "done"
    UNDONE = "undone"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"
    FAILED = "failed"


TABLE: Mapping[tuple[Phase, str], frozenset[Phase]] = {
    (Phase.WAITING, "prepared"): frozenset({Phase.READY}),
    (Phase.WAITING, "planned"): frozenset({Phase.MOVING}),
    (Phase.WAITING, "resumed"): frozenset({Phase.WAITING}),
    (Phase.WAITING, "finished"): frozenset(
        {Phase.ABORTED, Phase.FAILED, Phase.SUPERSEDED, Phase.DONE}
    ),
    (Phase.READY, "planned"): frozenset({Phase.MOVING}),
    # The preparation ended with its driver.
    (Phase.READY, "resumed"): frozenset({Phase.WAITING}),
    (Phase.READY, "finished"): frozenset(
        {Phase.ABORTED, Phase.FAILED, Phase.SUPERSEDED, Phase.DONE}
    ),
    (Phase.MOVING, "stepped"): frozenset({Phase.MOVING}),
    (Phase.MOVING, "reversed"): frozenset({Phase.REVERSING}),
    (Phase.MOVING, "resumed"): frozenset({Phase.MOVING}),
    (Phase.MOVING, "finished"): frozenset(
        {Phase.DONE, Phase.ABORTED, Phase.SUPERSEDED, Phase.FAILED}
    ),
    (Phase.REVERSING, "stepped"): frozenset({Phase.REVERSING}),
    (Phase.REVERSING, "resumed"): frozenset({Phase.REVERSING}),
    (Phase.REVERSING, "finished"): frozenset({Phase.UNDONE, Phase.SUPERSEDED, Phase.FAILED}),
    # A driver has started with the previous program.
    (Phase.DONE, "finished"): frozenset({Phase.UNDONE}),
}
"""Which event may happen in which phase, and the phases that it may lead to. No other event may happen."""

UNDER_WAY = frozenset({Phase.MOVING, Phase.REVERSING})
OPEN = frozenset({Phase.WAITING, Phase.READY}) | UNDER_WAY


@dataclass(frozen=True, kw_only=True)
class TakenStep:
    """A step that was made."""

    timestep: int
    """The timestep that began with it."""

    time_ms: int
    """When it was made, Unix milliseconds."""

    bins: int
    """How many bins moved."""

    size: float
    """Their estimated bytes of state."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The state of one reconfiguration."""

    id: str
    change: Change
    strategy: Strategy

    cause: str
    """Who or what requested it, in words."""

    at_timestep: int | None = None
    """The timestep from which it shall hold. Without any moment: as soon as possible."""

    at_ms: int | None = None
    """The time of the stream from which it shall hold, Unix milliseconds."""

    at_event: EventMoment | None = None
    """The event time from which it shall hold."""

    fixed: tuple[Step, ...] | None = None
    """Steps of the plan that was requested."""

    phase: Phase = Phase.WAITING
    """How far it is."""

    steps: tuple[Step, ...] = ()
    """All its steps; empty before it is planned, and once it is finished."""

    next: int = 0
    """Index of the step that is due."""

    base: Mapping[str, Any] = field(default_factory=dict)
    """Previous values of what it changes, for the way back."""

    taken: tuple[TakenStep, ...] = ()
    """The steps that were made."""

    times: Mapping[str, int] = field(default_factory=dict)
    """When it entered each phase, Unix milliseconds."""

    prepared: Mapping[str, Any] = field(default_factory=dict)
    """What the preparation did."""

    reason: str = ""
    """Why it ended otherwise than done, or advice, in words."""

    drivers: int = 0
    """How many later drivers took it up."""

    origin: Annotated[str, ABSENT] = ""
    """Which request of which controller it is; "" = of none."""

    @property
    def open(self) -> bool:
        """Whether it is not finished."""
        return self.phase in OPEN

    @property
    def under_way(self) -> bool:
        """Whether timesteps run between two of its steps."""
        return self.phase in UNDER_WAY

    @property
    def scheduled(self) -> bool:
        """Whether it waits for a moment of its own. Until then it keeps no other change from happening."""
        has_moment = (self.at_timestep, self.at_ms, self.at_event) != (None, None, None)
        return self.open and not self.under_way and has_moment

    @property
    def ended_ms(self) -> int:
        """When it finished, Unix milliseconds; 0 = it has not."""
        return 0 if self.open else self.times.get(str(self.phase), 0)

    @property
    def touches(self) -> frozenset[str]:
        """Operators (or JOB, PROGRAM) that it sets."""
        return self.change.touches()

    @property
    def left(self) -> tuple[Step, ...]:
        """Steps that are still to make."""
        return self.steps[self.next :]

    @property
    def last_timestep(self) -> int | None:
        """The timestep that began with the latest step."""
        return self.taken[-1].timestep if self.taken else None

    def after(self, event: Event) -> Record:
        """The record after one of its events. Raises ValueError if the table does not allow it."""
        to = _target(self.phase, event)
        allowed = TABLE.get((self.phase, event.kind), frozenset())
        if to not in allowed:
            msg = f"reconfiguration {self.id} is {self.phase}: {event.kind} ({to}) cannot happen to it"
            raise ValueError(msg)
        times = dict(self.times)
        if to != self.phase:
            times.setdefault(str(to), event.time_ms)
        folded: Record = _FOLD[type(event)](self, event)
        return replace(folded, phase=to, times=times)

    def rewrites(self, timestep: int) -> bool:
        """Whether a timestep writes state anew for one of its steps."""
        made = zip(self.steps, self.taken, strict=False)
        return any(
            taken.timestep == timestep and any(move.stays for move in step.moves)
            for step, taken in made
        )

    def withdrawn(self, timestep: int) -> Record:
        """The record after the timesteps from one on were withdrawn: their steps are made at that timestep."""
        if self.last_timestep is None or self.last_timestep <= timestep:
            return self
        taken = (replace(each, timestep=min(each.timestep, timestep)) for each in self.taken)
        return replace(self, taken=tuple(taken))


def begun(event: Requested) -> Record:
    """The record of an accepted request."""
    steps = None if event.steps is None else decode(tuple[Step, ...], event.steps)
    return Record(
        id=event.id,
        change=KINDS.read(event.change),
        strategy=strategies.from_json(event.strategy),
        cause=event.cause,
        at_timestep=event.at_timestep,
        at_ms=event.at_ms,
        at_event=_moment(event.at_event),
        fixed=steps,
        times={str(Phase.WAITING): event.time_ms},
        origin=event.origin,
    )


def _moment(data: Mapping[str, Any] | None) -> EventMoment | None:
    return None if data is None else decode(EventMoment, data)


def cut_step(step: Step, moves: int) -> tuple[Step, Step]:
    """A step in two: the first `moves` moves, and the others."""
    return (
        Step(first=step.first, moves=step.moves[:moves]),
        Step(moves=step.moves[moves:], last=step.last),
    )


def _target(phase: Phase, event: Event) -> Phase:
    if isinstance(event, Finished):
        return Phase(event.outcome)
    if isinstance(event, Resumed):
        return Phase.WAITING if phase is Phase.READY else phase
    if isinstance(event, Stepped):
        return phase
    return {"prepared": Phase.READY, "planned": Phase.MOVING, "reversed": Phase.REVERSING}.get(
        event.kind, phase
    )


def _prepared(record: Record, event: Prepared) -> Record:
    return replace(record, prepared=event.facts)


def _planned(record: Record, event: Planned) -> Record:
    steps = decode(tuple[Step, ...], event.steps)
    return replace(record, steps=steps, base=event.base, next=0, reason=event.advice)


def _stepped(record: Record, event: Stepped) -> Record:
    if record.next >= len(record.steps):
        msg = f"reconfiguration {record.id} has no step left for timestep {event.timestep}"
        raise ValueError(msg)
    step, steps = record.steps[record.next], record.steps
    if event.moves is not None and event.moves < len(step.moves):
        step, rest = cut_step(step, event.moves)
        steps = (*steps[: record.next], step, rest, *steps[record.next + 1 :])
    taken = TakenStep(
        timestep=event.timestep, time_ms=event.time_ms, bins=len(step.moves), size=step.size
    )
    return replace(record, steps=steps, next=record.next + 1, taken=(*record.taken, taken))


def _reversed(record: Record, event: Reversed) -> Record:
    made = record.steps[: record.next]
    back = decode(tuple[Step, ...], event.steps)
    return replace(record, steps=(*made, *back), reason=event.reason)


def _resumed(record: Record, event: Resumed) -> Record:
    record = replace(record, drivers=record.drivers + 1)
    return _unplaced(record) if event.unplaced else record


def _unplaced(record: Record) -> Record:
    operators = record.base.get("operators", {})
    free = {name: {**data, "placement": []} for name, data in operators.items()}
    fixed = None if record.fixed is None else tuple(step.unplaced() for step in record.fixed)
    return replace(
        record,
        steps=tuple(step.unplaced() for step in record.steps),
        fixed=fixed,
        base={**record.base, "operators": free} if free else record.base,
    )


def _finished(record: Record, event: Finished) -> Record:
    # The steps are no longer needed; `taken` keeps what was done.
    return replace(
        record,
        steps=(),
        next=0,
        base={},
        fixed=None,
        reason=event.reason or record.reason,
        prepared={**record.prepared, **event.facts},
    )


_FOLD: Mapping[type, Any] = {
    Prepared: _prepared,
    Planned: _planned,
    Stepped: _stepped,
    Reversed: _reversed,
    Resumed: _resumed,
    Finished: _finished,
}
