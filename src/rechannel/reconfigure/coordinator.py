"""Which step of which reconfiguration a timestep begins with: a state machine over all of them. Pure.

The rules:

- Of two changes of one operator, the earlier one finishes first. Changes of different operators run side by side.
- A change with a moment (a timestep, a time or an event time) holds from exactly there. It does not wait for its
  preparation, and an earlier change of the same operators makes all its remaining steps at that boundary. Until then it
  blocks no other change. At that boundary no other change of the same operators begins; if two changes have the same
  moment, the earlier one makes all its steps at once.
- Every other change waits until it is prepared.
- A change is judged when it is requested, against the Configuration after all changes before it; and again when its
  turn comes. If it is no longer possible then, it fails, and no part of it has happened.
- A change of the program begins when no timestep is in flight: all timesteps that run again after a crash belong to one
  program.
- Changes that move bins at one boundary share it: a later change has what is left of its own budget, and waits if that
  is less than a bin.
- A change that is aborted between two of its steps is led back by the same strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import Any, TypeAlias

from rechannel.errors import RechannelError
from rechannel.model.codec import encode
from rechannel.model.configuration import Configuration
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
"""Timesteps before the boundary of a change at which its preparation is checked again."""

NEAR_MS = 2000
"""The shortest time that NEAR timesteps take."""

Impossible: TypeAlias = Callable[[Record], str | None]
"""Why this driver cannot make a change that has not begun, such as a missing function; None if it can."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """How a timestep begins."""

    configuration: Configuration
    """What the timestep runs under."""

    events: tuple[Event, ...] = ()
    """Events to journal before the intent."""

    steps: tuple[Stepped, ...] = ()
    """Steps to journal with the intent."""

    moved: float = 0.0
    """Bytes of state that these steps move."""

    hold: bool = False
    """Whether no timestep may begin until those in flight are committed."""

    owing: frozenset[str] = frozenset()
    """Operators of changes that had to make all their steps here, and need a timestep for one of them."""


def decide(state: Coordination, now: Now, impossible: Impossible = lambda record: None) -> Decision:
    """Decide how the next timestep begins."""
    decision = Decision(configuration=now.configuration)
    for record, hurried in _in_turn(state, now):
        if meet(record.touches, decision.owing):
            continue  # of an idle stream: both make their steps at the next timestep
        decision = _advance(record, decision, now, hurried, impossible)
        if decision.hold:
            return replace(decision, steps=(), configuration=now.configuration)
    return decision


def settled(
    state: Coordination, committed: int, time_ms: int, *, to_run: int | None = None
) -> tuple[Finished, ...]:
    """Events that finish the reconfigurations whose last step is committed.

    to_run: a timestep that is still to run: what writes state anew in it is not finished.
    """
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
        and (to_run is None or not record.rewrites(to_run))
    )


def may_plan(state: Coordination, now: Now) -> bool:
    """Whether any reconfiguration may be planned at this boundary: only planning needs measurements."""
    return any(
        _due(record, now) if _fixed(record) else record.phase is Phase.READY
        for record in state.open
        if not record.under_way
    )


def wants_preparing(state: Coordination) -> tuple[Record, ...]:
    """Records that wait for their preparation, in the order of their requests."""
    return tuple(record for record in state.open if record.phase is Phase.WAITING)


def due_soon(state: Coordination, now: Now) -> tuple[Record, ...]:
    """Prepared records whose moment, or the end of those before them, is a few timesteps away."""
    waiting = [r for r in state.open if r.phase is Phase.READY and r.strategy.prepare]
    return tuple(record for record in waiting if _near(state, record, now))


def _near(state: Coordination, record: Record, now: Now) -> bool:
    if record.at_timestep is not None:
        return 0 < record.at_timestep - now.timestep <= NEAR
    if record.at_ms is not None:
        pace = max(now.configuration.interval_ms, NEAR_MS // NEAR)
        return 0 < record.at_ms - now.time_ms <= NEAR * pace
    if record.at_event is not None:
        return False  # the pace of event time is unknown
    before = [r for r in _before(state, record) if meet(r.touches, record.touches)]
    under_way = all(other.under_way for other in before)
    return bool(before) and under_way and sum(len(other.left) for other in before) <= NEAR


def _before(state: Coordination, record: Record) -> tuple[Record, ...]:
    """Open records that come before it."""
    earlier = takewhile(lambda other: other.id != record.id, state.open)
    later = dropwhile(lambda other: other.id != record.id, state.open)
    return (*earlier, *(other for other in later if other.under_way))


def state_at_begin(state: Coordination, record: Record, now: Now) -> Now:
    """The stream when a record begins, as far as it can be predicted: all records before it are done."""
    before = replace(state, records=_before(state, record))
    return replace(now, configuration=projection(before, now, scheduled=record.scheduled))


def _in_turn(state: Coordination, now: Now) -> Iterator[tuple[Record, bool]]:
    """Records that may make steps at this boundary, and whether they must make all of them.

    Records under way come first, then those whose moment this boundary is, then all others. A record must make all its
    steps if one of the same operators comes after it whose moment this is; no other record begins beside that one.
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
    """Whether it has a moment: a timestep, a time or an event time."""
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
    """Add what a record does at this boundary: it is planned if it has not begun, and makes the steps that are due."""
    if not record.under_way:
        why = impossible(record)
        here = replace(now, configuration=so_far.configuration)
        event = _plan(record, here) if why is None else finished(record, now, "failed", why)
        so_far = replace(so_far, events=(*so_far.events, event))
        record = record.after(event)
        if not record.open:
            return so_far
    passed = now.timestep + now.turns.get(record.id, 0)
    waits = record.taken and passed <= record.taken[-1].timestep + record.strategy.gap
    if waits and not hurried:
        return so_far
    return _with_steps(record, so_far, now, hurried)


def _with_steps(record: Record, so_far: Decision, now: Now, hurried: bool) -> Decision:
    """Add the next step of a record, or all that are left if it is hurried, as far as the budget allows."""
    events, steps = list(so_far.events), list(so_far.steps)
    configuration, moved = so_far.configuration, so_far.moved
    while record.left:
        step = record.left[0]
        # Only a timestep can write state anew.
        if now.idle and any(move.stays for move in step.moves):
            owing = so_far.owing | record.touches if hurried else so_far.owing
            so_far = replace(so_far, owing=owing)
            break
        if step.programs and not now.drained:
            return replace(so_far, hold=True)
        moves = None if hurried else _affordable(step, now.budget(record.strategy), moved)
        if moves == 0:
            break  # others have used the budget of this boundary
        stepped = Stepped(id=record.id, time_ms=now.time_ms, timestep=now.timestep, moves=moves)
        after = record.after(stepped)
        try:
            configuration = apply_step(configuration, after.steps[record.next])
        except (ValueError, KeyError) as error:
            why = f"its next step no longer fits ({error}); the steps that were made stay"
            # Events are journalled before the steps of this boundary: after a step of its own it has to wait.
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
    """Fix the steps, or finish the record: the change is no longer possible, or nothing has to be done."""
    if record.at_event is not None and record.at_event.lost(now.event_times):
        return finished(record, now, "failed", f"no operator reports {record.at_event} any more")
    try:
        target = record.change.resolved(now.configuration, now.facts)
        if record.fixed is not None:
            check_fixed(record.fixed, now.configuration, target)
    except RechannelError as error:
        return finished(record, now, "failed", str(error))
    way = route_to(target, now.configuration, record.change, now)
    advice = record.change.advice(now.configuration, target, now.facts)
    if not way:
        return finished(record, now, "done", "; ".join(("nothing had to change", *advice)))
    steps = planned_steps(record, way, now)
    return Planned(
        id=record.id,
        time_ms=now.time_ms,
        steps=tuple(map(encode, steps)),
        base=_base(now.configuration, way),
        advice="; ".join(advice),
    )


def _affordable(step: Step, budget: float | None, moved: float) -> int | None:
    """How many of a step's moves fit a budget, after the bytes that others have moved; None = all.

    At least one, if no change has moved anything.
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
    """The present values of what a route is going to change."""
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
    """Events for every record that was open when the previous driver ended.

    elsewhere: executors have other names than for that driver.
    """
    # If no timestep runs again, no commit will finish the records that have made their last step. But the state that a
    # withdrawn timestep should have written anew is written by the timestep that is planned in its place.
    number = now.timestep
    over = settled(state, number, now.time_ms, to_run=number) if now.drained else ()
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
    """Why a change cannot begin after executors got other names, or None."""
    if not record.change.names_executor:
        return None
    return "it names executors of another Spark application; request it again"
