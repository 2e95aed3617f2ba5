"""The decisions of the loop: `step(state, event) -> (state, commands)`. Pure.

The rules:

- Everything that is decided of a timestep is in the journal before anyone can see it: the intent before a sink stages
  anything and before the commit, the commit before anything is published, released or forgotten.
- A unit runs when the units that feed it are done, and, if it has state, when it is done with the timestep before
  (`schedule.py`).
- Timesteps are committed in order, one per turn, each when all of its units are done.
- A timestep that fails takes those after it with it (`retrying.py`).
- Changes take effect between two timesteps (`opening.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from rechannel.engine.loop.core.bad_rows import counted_of, too_many
from rechannel.engine.loop.core.commands import (
    Account,
    AnswerChanges,
    AnswerDrains,
    AwaitEvent,
    Command,
    End,
    ForgetInput,
    JournalCommit,
    Keep,
    Publish,
    Release,
    ReportCommit,
    ReportOperators,
    ReportWell,
    StageSinks,
    StartUnits,
    Sweep,
)
from rechannel.engine.loop.core.events import (
    Around,
    Begin,
    ChangesAnswered,
    Commit,
    Decided,
    Event,
    IdleSettled,
    LookFailed,
    Offered,
    Open,
    Rest,
    Staged,
    StageFailed,
    Start,
    StateRead,
    Switched,
    TimestepCommitted,
    TimestepOpened,
    UnitDone,
    UnitFailed,
    VersionLooked,
)
from rechannel.engine.loop.core.in_flight import folded, kept_of, reporting, step_of, unread
from rechannel.engine.loop.core.opening import (
    boundary_decided,
    idle_settled,
    looked_around,
    offered,
    opened,
    opens,
    switched,
    version_looked,
)
from rechannel.engine.loop.core.retrying import (
    Outcome,
    look_failed,
    taken_back,
    timestep_failed,
)
from rechannel.engine.loop.core.schedule import Unit
from rechannel.engine.loop.core.state import BRISK_MS, WAKEFUL_MS, LoopState
from rechannel.engine.program.steps import resolve_combine
from rechannel.model.bad_rows import advanced


def step(state: LoopState, event: Event) -> Outcome:
    """Return the state after an event, and what is to be done, in order.

    Raises TimestepError for reports that no tasks can have sent.
    """
    return _STEPS[type(event)](state, event)


# Units -------------------------------------------------------------------------------------------


def _unit_done(state: LoopState, event: UnitDone) -> Outcome:
    """Take the reports of a unit: state moves on, and sink buffers become readable."""
    if state.halted:
        return _dropped(state, event)
    number = event.unit[1]
    state = folded(state, event.unit, event.reports)
    # All files of the timestep: a function after a union runs, and keeps rows, in several stages.
    files = kept_of(state.in_flight[number].reports)
    keep: tuple[Command, ...] = (Keep(number=number, files=files),) if files else ()
    return state, (*keep, ReportOperators(number=number, operators=reporting(event.reports)))


def _unit_failed(state: LoopState, event: UnitFailed) -> Outcome:
    dropped = _dropped(state, event)
    if state.halted:
        return dropped
    return timestep_failed(dropped[0], event.unit[1], event.error, event.at_ms)


def _dropped(state: LoopState, event: UnitDone | UnitFailed) -> Outcome:
    """A unit came back, and what it brings does not count."""
    return replace(state, schedule=state.schedule.finish(event.unit)), ()


def _start(state: LoopState, event: Start) -> Outcome:
    """Start the units that may run."""
    del event
    ready = () if state.halted else state.schedule.ready()
    if not ready:
        return state, ()
    alone = len(ready) == 1 and not state.schedule.running and _nothing_else(state, ready[0])
    units = {unit: step_of(state, unit) for unit in ready}
    schedule = state.schedule
    for unit in ready:
        schedule = schedule.start(unit)
    state = replace(state, schedule=schedule)
    return state, (StartUnits(units=units, alone=alone),)


def _nothing_else(state: LoopState, unit: Unit) -> bool:
    """Whether the driver's own thread may run a unit: it is over soon, and nothing else is to be done meanwhile.

    A unit on Spark may wait for executors that are gone, and the driver is what asks for others.
    """
    inline = state.in_flight[unit[1]].timestep.inline is not None
    return inline and state.brisk and state.full and state.schedule.committable() is None


# A turn ------------------------------------------------------------------------------------------


def _begin(state: LoopState, event: Begin) -> Outcome:
    if state.seen_all or state.moving or state.stopping is not event.stopping:
        state = replace(state, seen_all=False, moving=False, stopping=event.stopping)
    state, commands = taken_back(state)
    return state, (*commands, AnswerChanges())


def _state_read(state: LoopState, event: StateRead) -> Outcome:
    return state.follow(state.plan, event.manifests, event.times), ()


def _changes_answered(state: LoopState, event: ChangesAnswered) -> Outcome:
    del event
    return state, ()


def _rest(state: LoopState, event: Rest) -> Outcome:
    """Wait for a unit where one runs, but look for another timestep meanwhile if there is room for one.

    Without any in flight, answer those who wait for all input, and sleep.
    """
    if state.in_flight and (state.full or state.halted or state.stopping):
        return state, (AwaitEvent(at_most_ms=WAKEFUL_MS),)
    pause = state.pace.pause(
        event.wall_ms,
        interval_ms=state.configuration.interval_ms,
        poll_ms=state.rules.poll_ms,
        polled_ms=event.polled_ms,
    )
    if state.in_flight:
        due_ms = state.pace.left(event.wall_ms, state.configuration.interval_ms)
        return state, (AwaitEvent(at_most_ms=min(max(pause, due_ms), WAKEFUL_MS)),)
    quiet = state.seen_all and not state.moving and not event.fetching
    answers: tuple[Command, ...] = ()
    if quiet and not state.replay and event.published:
        answers = (AnswerDrains(asked=event.asked),)
    return state, (*answers, AwaitEvent(at_most_ms=pause))


# Committing --------------------------------------------------------------------------------------


def _commit(state: LoopState, event: Commit) -> Outcome:
    """Commit the oldest timestep if all of its units are done; first come sinks that write before."""
    del event
    number = None if state.halted else state.schedule.committable()
    if number is None:
        return state, ()
    error = too_many(state, number)
    return state, (StageSinks(number=number) if error is None else End(error=error),)


def _staged(state: LoopState, event: Staged) -> Outcome:
    commit = JournalCommit(number=event.number, staged=event.staged, ran_ms=event.ran_ms)
    return state, (commit,)


def _stage_failed(state: LoopState, event: StageFailed) -> Outcome:
    return timestep_failed(state, event.number, event.error, event.at_ms)


def _committed(state: LoopState, event: TimestepCommitted) -> Outcome:
    """Everything that follows from a commit, in order."""
    number = event.number
    flight = state.in_flight[number]
    tries = state.timesteps.well()
    interval_ms = flight.timestep.configuration.interval_ms
    latest = state.rules.catch_up and number == state.last
    well: tuple[Command, ...] = (ReportWell(),) if tries is not state.timesteps else ()
    state = replace(
        state,
        schedule=state.schedule.close(number),
        in_flight={n: other for n, other in state.in_flight.items() if n != number},
        timesteps=tries,
        pace=state.pace.hastened(unread(flight), interval_ms) if latest else state.pace,
        bad_rows=advanced(state.bad_rows, number, counted_of(state.plan, flight.reports)),
        brisk=event.committed_ms - flight.began_ms < BRISK_MS,
        configuration=resolve_combine(state.plan, state.configuration, flight.reports),
    )
    return state, (
        *well,
        Publish(flight=flight, staged=event.staged),
        Release(number=number),
        ForgetInput(timestep=flight.timestep),
        Account(flight=flight, committed_ms=event.committed_ms),
        ReportCommit(flight=flight, ran_ms=event.ran_ms, committed_ms=event.committed_ms),
        Sweep(),
    )


_STEPS: Mapping[type[Event], Callable[[LoopState, Any], Outcome]] = {
    UnitDone: _unit_done,
    UnitFailed: _unit_failed,
    Begin: _begin,
    StateRead: _state_read,
    ChangesAnswered: _changes_answered,
    Open: opens,
    Around: looked_around,
    Decided: boundary_decided,
    VersionLooked: version_looked,
    Switched: switched,
    Offered: offered,
    LookFailed: look_failed,
    IdleSettled: idle_settled,
    TimestepOpened: opened,
    Start: _start,
    Commit: _commit,
    Staged: _staged,
    StageFailed: _stage_failed,
    TimestepCommitted: _committed,
    Rest: _rest,
}
