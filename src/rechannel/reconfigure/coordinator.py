"""Which step of which reconfiguration a timestep begins with: a state machine over all of them. Pure.

The rules:

- Of two changes of one operator the earlier one is finished first; changes of different operators go side by side.
- A change for a timestep (or a time) holds from exactly there: it does not wait for its preparation, and what another
  one has still to move of the same operators is moved at once. Until then it blocks nobody; at that border
  nothing else of the same operators begins, and of two for one border the earlier one is made at once.
- Every other change waits until it is prepared.
- A change is judged when it is asked for, against what will be when those before it are done; and again when its turn
  comes. What is no longer possible then fails, and nothing of it has happened.
- A change of the program begins when no timestep is under way: after a crash all timesteps that run again
  belong to one program.
- Whoever aborts a change that is under way is led back by the same strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import takewhile
from typing import Any

from rechannel.errors import NotReadyError, RechannelError, RefusedError
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.reconfigure import changes, strategies
from rechannel.reconfigure.changes import JOB, PROGRAM, Change, Rewrite, parts_of
from rechannel.reconfigure.events import (
    Event,
    Finished,
    Planned,
    Requested,
    Resumed,
    Reversed,
    Stepped,
)
from rechannel.reconfigure.grouping import steps_of
from rechannel.reconfigure.record import Phase, Record, begun
from rechannel.reconfigure.resolve import Facts, resolve
from rechannel.reconfigure.steps import BinMove, Route, Sizes, Step, apply_step, rewritten, route
from rechannel.reconfigure.strategies import Strategy

KEPT = 64
"""Reconfigurations that are over and stay in the journal's state; the history keeps all of them."""


@dataclass(frozen=True, kw_only=True)
class Coordination:
    """All reconfigurations, in the order in which they were asked for. serial: how many there ever were."""

    serial: int = 0
    records: tuple[Record, ...] = ()

    @property
    def open(self) -> tuple[Record, ...]:
        """Those that are not over."""
        return tuple(record for record in self.records if record.open)

    def rewritten_at(self, timestep: int) -> tuple[BinMove, ...]:
        """Bins whose state a timestep that is not committed yet writes anew."""
        return tuple(
            move
            for record in self.records
            for step, taken in zip(record.steps, record.taken, strict=False)
            if taken.timestep == timestep
            for move in step.moves
            if move.stays
        )

    def moved_at(self, timestep: int) -> float:
        """Bytes of state that got another task at the border before a timestep, as estimated."""
        return sum(
            taken.size
            for record in self.records
            for taken in takewhile(lambda t: t.timestep >= timestep, reversed(record.taken))
            if taken.timestep == timestep
        )

    def find(self, id: str) -> Record:  # noqa: A002 - that is what it is
        """A reconfiguration. Raises NotReadyError when there is none of that name (any more)."""
        for record in self.records:
            if record.id == id:
                return record
        msg = f"there is no reconfiguration {id!r}; there are {[r.id for r in self.records]}"
        raise NotReadyError(msg)

    def after(self, event: Event) -> Coordination:
        """The state after one more event. Raises ValueError when it cannot happen."""
        if isinstance(event, Requested):
            if event.id != f"r{self.serial + 1}":
                msg = f"the next reconfiguration is r{self.serial + 1}, not {event.id}"
                raise ValueError(msg)
            records = [
                _superseded(r, event) if r.id in event.supersedes else r for r in self.records
            ]
            return Coordination(serial=self.serial + 1, records=(*records, begun(event)))
        if all(record.id != event.id for record in self.records):
            msg = f"{event.kind} of {event.id}, which does not exist"
            raise ValueError(msg)
        records = [r.after(event) if r.id == event.id else r for r in self.records]
        over = [record.id for record in records if not record.open]
        gone = set(over[:-KEPT])
        return replace(self, records=tuple(r for r in records if r.id not in gone))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"serial": self.serial, "records": [record.to_json() for record in self.records]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Coordination:
        """Invert `to_json`."""
        return cls(
            serial=data["serial"], records=tuple(Record.from_json(r) for r in data["records"])
        )


def _superseded(record: Record, by: Requested) -> Record:
    reason = f"superseded by {by.id}"
    return record.after(
        Finished(id=record.id, time_ms=by.time_ms, outcome="superseded", reason=reason)
    )


# Asking ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asks for. at_timestep, at_ms: exclusive; None = as soon as possible."""

    change: Change
    strategy: Strategy
    cause: str = "asked for"
    at_timestep: int | None = None
    at_ms: int | None = None
    steps: tuple[Step, ...] | None = None
    supersede: bool = False


@dataclass(frozen=True, kw_only=True)
class Now:
    """The running stream at a border.

    timestep: the next one to begin. time_ms: its time. configuration: what the one before runs under. drained: no
    timestep is under way. idle: and none is coming, so that nobody is disturbed by a step, however large. facts,
    sizes: as measured. budget: most bytes that a step of a strategy may move now, or None.
    """

    timestep: int
    time_ms: int
    configuration: Configuration
    drained: bool = True
    idle: bool = False
    facts: Facts = field(default_factory=Facts)
    sizes: Sizes = field(default_factory=Sizes)
    budget: Callable[[Strategy], float | None] = lambda strategy: strategy.budget_bytes


def accept(state: Coordination, request: Request, now: Now) -> Requested:
    """The event of a request that is accepted. Raises RefusedError (or UnknownOperatorError): then nothing happens."""
    _check_when(request, now)
    gone: list[Record] = []
    if request.supersede:
        gone = [r for r in state.open if _meet(r.touches, request.change.touches())]
        for record in gone:
            _check_replaceable(record)
    others = tuple(record for record in state.records if record not in gone)
    projected = projection(Coordination(serial=state.serial, records=others), now)
    target = resolve(projected, request.change, now.facts)
    if request.steps is not None:
        _check_fixed(request.steps, projected, target)
    return Requested(
        id=f"r{state.serial + 1}",
        time_ms=now.time_ms,
        change=changes.to_json(request.change),
        strategy=strategies.to_json(request.strategy),
        cause=request.cause,
        at_timestep=request.at_timestep,
        at_ms=request.at_ms,
        steps=None if request.steps is None else tuple(s.to_json() for s in request.steps),
        supersedes=tuple(record.id for record in gone),
    )


def projection(state: Coordination, now: Now) -> Configuration:
    """The Configuration when everything asked for so far is done. What is no longer possible is left out."""
    configuration = now.configuration
    # A change for a timestep may be under way before those that were asked for earlier.
    for record in sorted(state.open, key=lambda r: not r.under_way):
        with suppress(RechannelError, ValueError, KeyError):
            if record.under_way:
                configuration = reduce(apply_step, record.left, configuration)
            else:
                configuration = resolve(configuration, record.change, now.facts)
    return configuration


def planned_route(configuration: Configuration, change: Change, now: Now) -> Route:
    """The way a change would take from a Configuration. Raises RefusedError."""
    target = resolve(configuration, change, now.facts)
    way = route(configuration, target, now.sizes)
    again = [part.operator for part in parts_of(change) if isinstance(part, Rewrite)]
    moves = [m for name in dict.fromkeys(again) for m in rewritten(target, name, now.sizes)]
    return replace(way, moves=(*way.moves, *moves))


def abort(state: Coordination, id_: str, now: Now, reason: str) -> tuple[Event, ...]:
    """Events that end a reconfiguration, or lead it back. Raises RefusedError when it is over."""
    record = state.find(id_)
    if not record.open or record.phase is Phase.REVERSING:
        msg = f"reconfiguration {id_} is {record.phase}: it cannot be aborted any more"
        raise RefusedError(msg)
    if not record.under_way or not record.taken:
        outcome = "superseded" if record.under_way else "aborted"
        return (_finished(record, now, outcome, reason),)
    _check_replaceable(record)
    if not record.left:
        msg = f"reconfiguration {id_} has made its last step; ask for the change back instead"
        raise RefusedError(msg)
    back = route(now.configuration, _restored(now.configuration, record.base), now.sizes)
    steps = steps_of(back, record.strategy, now.budget(record.strategy))
    return (
        Reversed(
            id=id_,
            time_ms=now.time_ms,
            steps=tuple(step.to_json() for step in steps),
            reason=reason,
        ),
    )


def resume(
    state: Coordination, now: Now, impossible: Callable[[Record], str | None]
) -> tuple[Event, ...]:
    """What becomes of everything that was open when the driver before this one ended.

    impossible: why this driver cannot go on with a record (a function it does not have), or None.
    """
    # Where no timestep runs again, nobody else will say of those that have made their last step that they are over.
    over = settled(state, now.timestep, now.time_ms) if now.drained else ()
    events: list[Event] = [*over]
    for record in state.open:
        if any(event.id == record.id for event in over):
            continue
        why = None if record.under_way and record.taken else impossible(record)
        if why is not None:
            events.append(_finished(record, now, "failed", f"rolled back: {why}"))
        else:
            events.append(Resumed(id=record.id, time_ms=now.time_ms, timestep=now.timestep))
    return tuple(events)


# Deciding --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How a timestep begins.

    events: to be journalled before the intent. steps: to be journalled with it. configuration: what it runs under.
    hold: no timestep may begin before those under way are done.
    """

    configuration: Configuration
    events: tuple[Event, ...] = ()
    steps: tuple[Stepped, ...] = ()
    hold: bool = False


def border(state: Coordination, now: Now) -> Decision:
    """The decision for the next timestep."""
    decision = Decision(configuration=now.configuration)
    for record, hurried in _in_turn(state, now):
        decision = _advance(record, decision, now, hurried or now.idle)
        if decision.hold:
            return replace(decision, steps=(), configuration=now.configuration)
    return decision


def settled(state: Coordination, committed: int, time_ms: int) -> tuple[Finished, ...]:
    """Those whose last step's timestep is committed."""
    return tuple(
        Finished(
            id=record.id,
            time_ms=time_ms,
            outcome="undone" if record.phase is Phase.REVERSING else "done",
        )
        for record in state.open
        if record.under_way
        and not record.left
        and (record.last_timestep is None or record.last_timestep <= committed)
    )


def wants_preparing(state: Coordination) -> tuple[Record, ...]:
    """Those that wait for their preparation, first come first."""
    return tuple(record for record in state.open if record.phase is Phase.WAITING)


def _in_turn(state: Coordination, now: Now) -> Iterator[tuple[Record, bool]]:
    """Records that may do something at this border, and whether they have to do all of it.

    Those under way come first, then those that are for exactly this border, then all others. Whoever has one for
    exactly this border behind it, of the same operators, is hurried; and nothing begins beside such a one.
    """
    under_way = [record for record in state.open if record.under_way]
    fixed = [record for record in state.open if not record.under_way and _fixed(record)]
    due = [record for record in fixed if _due(record, now)]
    others = [record for record in state.open if not record.under_way and not _fixed(record)]
    taken: frozenset[str] = frozenset()
    for record in under_way:
        hurried = any(_meet(record.touches, other.touches) for other in due)
        if hurried or not _meet(record.touches, taken):
            yield record, hurried
        taken |= record.touches
    for number, record in enumerate(due, 1):
        yield record, any(_meet(record.touches, other.touches) for other in due[number:])
        taken |= record.touches
    for record in others:
        if record.phase is Phase.READY and not _meet(record.touches, taken):
            yield record, False
        taken |= record.touches


def _fixed(record: Record) -> bool:
    """Whether it is for a timestep or a time."""
    return record.at_timestep is not None or record.at_ms is not None


def _due(record: Record, now: Now) -> bool:
    at_timestep, at_ms = record.at_timestep, record.at_ms
    return (at_timestep is not None and now.timestep >= at_timestep) or (
        at_ms is not None and now.time_ms >= at_ms
    )


def _advance(record: Record, so_far: Decision, now: Now, hurried: bool) -> Decision:
    events = list(so_far.events)
    here = replace(now, configuration=so_far.configuration)
    if not record.under_way:
        event = _plan(record, here)
        events.append(event)
        record = record.after(event)
        if not record.open:
            return replace(so_far, events=tuple(events))
    steps = list(so_far.steps)
    configuration = so_far.configuration
    waits = record.taken and now.timestep <= record.taken[-1].timestep + record.strategy.gap
    if waits and not hurried:
        return replace(so_far, events=tuple(events))
    while record.left:
        step = record.left[0]
        if now.idle and any(move.stays for move in step.moves):
            break  # what is written anew is written by a timestep
        if step.programs and not now.drained:
            return replace(so_far, events=tuple(events), hold=True)
        moves = None if hurried else _affordable(step, now.budget(record.strategy))
        stepped = Stepped(id=record.id, time_ms=now.time_ms, timestep=now.timestep, moves=moves)
        after = record.after(stepped)
        try:
            configuration = apply_step(configuration, after.steps[record.next])
        except (ValueError, KeyError) as error:
            why = f"its next step does not fit any more ({error}); what was done stays"
            # Events come before the steps of this border: behind one of its own it has to wait.
            if not any(step.id == record.id for step in steps):
                events.append(_finished(record, now, "failed", why))
            break
        record = after
        steps.append(stepped)
        if not hurried:
            break
    return replace(so_far, events=tuple(events), steps=tuple(steps), configuration=configuration)


def _plan(record: Record, now: Now) -> Event:
    """Fix the steps, or say why the change is not possible any more, or that there is nothing to do."""
    try:
        target = resolve(now.configuration, record.change, now.facts)
        if record.fixed is not None:
            _check_fixed(record.fixed, now.configuration, target)
    except RechannelError as error:
        return _finished(record, now, "failed", str(error))
    way = planned_route(now.configuration, record.change, now)
    if not way:
        return _finished(record, now, "done", "it was so already")
    steps = record.fixed or steps_of(way, record.strategy, now.budget(record.strategy))
    return Planned(
        id=record.id,
        time_ms=now.time_ms,
        steps=tuple(step.to_json() for step in steps),
        base=_base(now.configuration, way),
    )


def _affordable(step: Step, budget: float | None) -> int | None:
    """How many of a step's moves a budget admits, at least one; None = all."""
    if budget is None or step.size <= budget:
        return None
    total, count = 0.0, 0
    for move in step.moves:
        total += move.size
        if count and total > budget:
            break
        count += 1
    return count if count < len(step.moves) else None


def _base(configuration: Configuration, way: Route) -> dict[str, Any]:
    """What a route is going to change, as it is."""
    touched = {a.operator for a in (*way.first, *way.last)} | {m.operator for m in way.moves}
    data = configuration.to_json()
    names = {a.name for a in (*way.first, *way.last) if a.operator is None}
    return {
        "operators": {
            name: data["operators"][name]
            for name in sorted(filter(None, touched))
            if name in data["operators"]
        },
        "job": {name: data[name] for name in sorted(names)},
    }


def _restored(configuration: Configuration, base: Mapping[str, Any]) -> Configuration:
    operators = dict(configuration.operators)
    for name, data in base["operators"].items():
        before = OperatorConfiguration.from_json(data)
        operators[name] = replace(before, combining=operators[name].combining)
    return replace(configuration, operators=operators, **base["job"])


def _meet(some: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two changes must not overlap. A change of the program meets everything but the job's own numbers."""
    if some & others:
        return True
    return any(
        PROGRAM in one and bool(other - {JOB}) for one, other in ((some, others), (others, some))
    )


def _finished(record: Record, now: Now, outcome: Any, reason: str) -> Finished:
    return Finished(id=record.id, time_ms=now.time_ms, outcome=outcome, reason=reason)


def _check_when(request: Request, now: Now) -> None:
    if request.at_timestep is not None and request.at_ms is not None:
        msg = "a change begins at a timestep or at a time, not both"
        raise RefusedError(msg)
    if request.at_timestep is not None and request.at_timestep < now.timestep:
        msg = (
            f"timestep {request.at_timestep} has begun already; the next possible one is"
            f" {now.timestep}"
        )
        raise RefusedError(msg)
    if request.at_ms is not None and request.at_ms < now.time_ms:
        msg = f"time {request.at_ms} ms is over: the stream is at {now.time_ms} ms; leave `at` away"
        raise RefusedError(msg)


def _check_replaceable(record: Record) -> None:
    if record.under_way and record.taken and PROGRAM in record.touches:
        msg = f"reconfiguration {record.id} has exchanged the program; change it back with another one"
        raise RefusedError(msg)


def _check_fixed(steps: tuple[Step, ...], now: Configuration, target: Configuration) -> None:
    """A plan that was made before must lead from here to where its change leads."""
    made = now
    try:
        for step in steps:
            made = apply_step(made, step)
    except (ValueError, KeyError, TypeError) as error:  # a plan file may hold anything
        msg = f"the plan was made for another configuration than the present one ({error}); plan again"
        raise RefusedError(msg) from error
    if replace(made, version=0) != replace(target, version=0):
        msg = "the plan leads elsewhere than its change does now; plan again"
        raise RefusedError(msg)
