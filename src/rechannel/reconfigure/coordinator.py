"""Which step of which reconfiguration a timestep begins with: a state machine over all of them. Pure.

The rules:

- Of two changes of one operator the earlier one is finished first; changes of different operators go side by side.
- A change for a timestep (or a time, or an event time) holds from exactly there: it does not wait for its preparation,
  and what another one has still to move of the same operators is moved at once. Until then it blocks no other; at that
  border nothing else of the same operators begins, and of two for one border the earlier one is made at once.
- Every other change waits until it is prepared.
- A change is judged when it is asked for, against what will be when those before it are done; and again when its turn
  comes. What is no longer possible then fails, and nothing of it has happened.
- A change of the program begins when no timestep is under way: after a crash all timesteps that run again
  belong to one program.
- What several changes move at one border shares their budgets: a later one has what is left of its own, and
  waits where that is less than a bin.
- A change that is aborted while it is under way is led back by the same strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import Any, TypeAlias

from rechannel.errors import RechannelError
from rechannel.model.codec import encode
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.together import parts_of
from rechannel.reconfigure.coordination import Coordination, Now, finished, meet
from rechannel.reconfigure.events import Event, Finished, Planned, Resumed, Stepped
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import (
    check_fixed,
    planned_steps,
    projection,
    route_to,
)
from rechannel.reconfigure.steps import Route, Step, apply_step, job_fields

NEAR = 8
"""Timesteps ahead of its border at which what was prepared for a change is looked at again."""

NEAR_MS = 2000
"""The least time that passes for so many timesteps."""

Impossible: TypeAlias = Callable[[Record], str | None]
"""Why a driver cannot make a change that has not begun (a function that it does not have), or None."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How a timestep begins.

    events: to be journalled before the intent. steps: to be journalled with it. configuration: what it runs under.
    moved: bytes that all these steps move. hold: no timestep may begin before those under way are done.
    """

    configuration: Configuration
    events: tuple[Event, ...] = ()
    steps: tuple[Stepped, ...] = ()
    moved: float = 0.0
    hold: bool = False


def border(state: Coordination, now: Now, impossible: Impossible = lambda record: None) -> Decision:
    """The decision for the next timestep. impossible: why a record cannot begin with this driver, or None."""
    decision = Decision(configuration=now.configuration)
    for record, hurried in _in_turn(state, now):
        decision = _advance(record, decision, now, hurried, impossible)
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


def may_plan(state: Coordination, now: Now) -> bool:
    """Whether any reconfiguration may be planned at a border: only that looks at what was measured."""
    return any(
        _due(record, now) if _fixed(record) else record.phase is Phase.READY
        for record in state.open
        if not record.under_way
    )


def wants_preparing(state: Coordination) -> tuple[Record, ...]:
    """Those that wait for their preparation, first come first."""
    return tuple(record for record in state.open if record.phase is Phase.WAITING)


def soon(state: Coordination, now: Now) -> tuple[Record, ...]:
    """Those that were prepared and wait for a moment, or for others, that is a few timesteps away."""
    waiting = [r for r in state.open if r.phase is Phase.READY and r.strategy.prepare]
    return tuple(record for record in waiting if _near(state, record, now))


def _near(state: Coordination, record: Record, now: Now) -> bool:
    if record.at_timestep is not None:
        return 0 < record.at_timestep - now.timestep <= NEAR
    if record.at_ms is not None:
        pace = max(now.configuration.interval_ms, NEAR_MS // NEAR)
        return 0 < record.at_ms - now.time_ms <= NEAR * pace
    if record.at_event is not None:
        return False  # it is not known how fast event time goes
    before = [r for r in _before(state, record) if meet(r.touches, record.touches)]
    under_way = all(other.under_way for other in before)
    return bool(before) and under_way and sum(len(other.left) for other in before) <= NEAR


def _before(state: Coordination, record: Record) -> tuple[Record, ...]:
    """Records that are open and come before it."""
    earlier = takewhile(lambda other: other.id != record.id, state.open)
    later = dropwhile(lambda other: other.id != record.id, state.open)
    return (*earlier, *(other for other in later if other.under_way))


def beginning(state: Coordination, record: Record, now: Now) -> Now:
    """What a record begins with, as far as that can be told: what is before it is done."""
    before = replace(state, records=_before(state, record))
    return replace(now, configuration=projection(before, now))


def _in_turn(state: Coordination, now: Now) -> Iterator[tuple[Record, bool]]:
    """Records that may do something at this border, and whether they have to do all of it.

    Those under way come first, then those that are for exactly this border, then all others. A record that
    has one for exactly this border after it, of the same operators, is hurried; and nothing begins beside such a one.
    """
    under_way = [record for record in state.open if record.under_way]
    fixed = [record for record in state.open if not record.under_way and _fixed(record)]
    due = [record for record in fixed if _due(record, now)]
    others = [record for record in state.open if not record.under_way and not _fixed(record)]
    taken: frozenset[str] = frozenset()
    for record in under_way:
        hurried = any(meet(record.touches, other.touches) for other in due)
        if hurried or not meet(record.touches, taken):
            yield record, hurried
        taken |= record.touches
    for number, record in enumerate(due, 1):
        yield record, any(meet(record.touches, other.touches) for other in due[number:])
        taken |= record.touches
    for record in others:
        if record.phase is Phase.READY and not meet(record.touches, taken):
            yield record, False
        taken |= record.touches


def _fixed(record: Record) -> bool:
    """Whether it is for a timestep, a time or an event time."""
    return any(at is not None for at in (record.at_timestep, record.at_ms, record.at_event))


def _due(record: Record, now: Now) -> bool:
    if record.at_timestep is not None:
        return now.timestep >= record.at_timestep
    if record.at_ms is not None:
        return now.time_ms >= record.at_ms
    return record.at_event is not None and record.at_event.come(now.event_times)


def _advance(
    record: Record, so_far: Decision, now: Now, hurried: bool, impossible: Impossible
) -> Decision:
    events = list(so_far.events)
    here = replace(now, configuration=so_far.configuration)
    if not record.under_way:
        why = impossible(record)
        event = _plan(record, here) if why is None else finished(record, now, "failed", why)
        events.append(event)
        record = record.after(event)
        if not record.open:
            return replace(so_far, events=tuple(events))
    steps = list(so_far.steps)
    configuration, moved = so_far.configuration, so_far.moved
    passed = now.timestep + now.turns.get(record.id, 0)
    waits = record.taken and passed <= record.taken[-1].timestep + record.strategy.gap
    if waits and not hurried:
        return replace(so_far, events=tuple(events))
    while record.left:
        step = record.left[0]
        if now.idle and any(move.stays for move in step.moves):
            break  # what is written anew is written by a timestep
        if step.programs and not now.drained:
            return replace(so_far, events=tuple(events), hold=True)
        moves = None if hurried else _affordable(step, now.budget(record.strategy), moved)
        if moves == 0:
            break  # others have moved so much at this border already
        stepped = Stepped(id=record.id, time_ms=now.time_ms, timestep=now.timestep, moves=moves)
        after = record.after(stepped)
        try:
            configuration = apply_step(configuration, after.steps[record.next])
        except (ValueError, KeyError) as error:
            why = f"its next step does not fit any more ({error}); what was done stays"
            # Events come before the steps of this border: behind one of its own it has to wait.
            if not any(step.id == record.id for step in steps):
                events.append(finished(record, now, "failed", why))
            break
        moved += after.steps[record.next].size
        record = after
        steps.append(stepped)
        if not hurried:
            break
    return replace(
        so_far,
        events=tuple(events),
        steps=tuple(steps),
        configuration=configuration,
        moved=moved,
    )


def _plan(record: Record, now: Now) -> Event:
    """Fix the steps, or say why the change is not possible any more, or that there is nothing to do."""
    if record.at_event is not None and record.at_event.lost(now.event_times):
        return finished(record, now, "failed", f"nothing tells of {record.at_event} any more")
    try:
        target = record.change.resolved(now.configuration, now.facts)
        if record.fixed is not None:
            check_fixed(record.fixed, now.configuration, target)
    except RechannelError as error:
        return finished(record, now, "failed", str(error))
    way = route_to(target, now.configuration, record.change, now)
    said = record.change.advice(now.configuration, target, now.facts)
    if not way:
        return finished(record, now, "done", "; ".join(("it was so already", *said)))
    steps = planned_steps(record, way, now)
    return Planned(
        id=record.id,
        time_ms=now.time_ms,
        steps=tuple(map(encode, steps)),
        base=_base(now.configuration, way),
        advice="; ".join(said),
    )


def _affordable(step: Step, budget: float | None, moved: float) -> int | None:
    """How many of a step's moves a budget admits beside the bytes that others have moved; None = all.

    Where no change has moved anything, at least one.
    """
    if budget is None or step.size <= (room := max(0.0, budget - moved)):
        return None
    total, count = 0.0, 0
    for move in step.moves:
        total += move.size
        if total > room and (count or moved):
            break
        count += 1
    return count if count < len(step.moves) else None


def _base(configuration: Configuration, way: Route) -> dict[str, Any]:
    """What a route is going to change, as it is."""
    touched = {a.operator for a in (*way.first, *way.last)} | {m.operator for m in way.moves}
    operators, job = configuration.operators, job_fields(configuration)
    names = {a.name for a in (*way.first, *way.last) if a.operator is None}
    return {
        "operators": {
            name: encode(operators[name])
            for name in sorted(filter(None, touched))
            if name in operators
        },
        "job": {name: job[name] for name in sorted(names)},
    }


def resume(
    state: Coordination, now: Now, impossible: Impossible, *, elsewhere: bool = False
) -> tuple[Event, ...]:
    """What becomes of everything that was open when the driver before this one ended.

    elsewhere: executors have other names than for that driver.
    """
    # Where no timestep runs again, nothing else will say of those that have made their last step that they are over.
    # But what a withdrawn timestep was to write anew is written by the one that is planned in its place.
    done = settled(state, now.timestep, now.time_ms) if now.drained else ()
    over = [event for event in done if not state.find(event.id).rewrites(now.timestep)]
    events: list[Event] = [*over]
    for record in state.open:
        if any(event.id == record.id for event in over):
            continue
        why = _stale(record) if elsewhere else None
        why = None if record.under_way and record.taken else why or impossible(record)
        if why is not None:
            events.append(finished(record, now, "failed", f"rolled back: {why}"))
        else:
            events.append(
                Resumed(
                    id=record.id,
                    time_ms=now.time_ms,
                    timestep=now.timestep,
                    unplaced=elsewhere,
                )
            )
    return tuple(events)


def _stale(record: Record) -> str | None:
    """Why a change cannot begin where executors have other names than when it was asked for, or None."""
    if not any(part.names_executor for part in parts_of(record.change)):
        return None
    return "it names executors of another application; ask again"
