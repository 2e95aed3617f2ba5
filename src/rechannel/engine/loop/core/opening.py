"""Which timestep is opened next, and how it begins. Pure.

    room? --> one that has to run again
          --> coordinator --> another program? --> switch, and look again
                          --> interval? sources? --> intent --> in flight, and look again

The loop goes round until as many timesteps are in flight as the Configuration admits, or there is nothing to do.
"""

from __future__ import annotations

from msgspec.structs import replace

from rechannel.engine.loop.core.commands import (
    AskCoordinator,
    Command,
    FailChanges,
    JournalIntent,
    LookAround,
    LookAtVersion,
    OpenAgain,
    PollSources,
    SettleIdle,
    SwitchProgram,
)
from rechannel.engine.loop.core.events import (
    Around,
    Decided,
    IdleSettled,
    Offered,
    Open,
    Switched,
    TimestepOpened,
    VersionLooked,
)
from rechannel.engine.loop.core.pace import Pace
from rechannel.engine.loop.core.retrying import Outcome, look_succeeded
from rechannel.engine.loop.core.state import InFlight, LoopState
from rechannel.engine.loop.core.timers import timers_due
from rechannel.engine.stages.runner import Timestep


def opens(state: LoopState, event: Open) -> Outcome:
    """Begin to look for timesteps, unless something has still to come back or to wait for its next try."""
    return state, () if state.holds(event.at_ms) else _further(state)


def _further(state: LoopState) -> tuple[Command, ...]:
    """Look around for another timestep where there is room for one."""
    return () if state.full else (LookAround(),)


def looked_around(state: LoopState, event: Around) -> Outcome:
    """Take a timestep that has to run again, or ask how the next one would begin."""
    if not event.room:
        return state, ()
    if state.replay:
        timestep, *rest = state.replay
        again = OpenAgain(timestep=timestep, began_ms=event.wall_ms)
        return replace(state, replay=tuple(rest)), (again,)
    if state.stopping:
        return state, ()
    return state, (AskCoordinator(wall_ms=event.wall_ms, stream_ms=event.stream_ms),)


def boundary_decided(state: LoopState, event: Decided) -> Outcome:
    """Go on with a decision of the coordinator: nothing, another program, or a timestep if its interval admits it."""
    decision = event.decision
    if decision.hold:
        return state, ()
    if decision.configuration.dataflow != state.configuration.dataflow:
        return state, (LookAtVersion(decision=decision, stream_ms=event.stream_ms),)
    # The interval is that of the timestep itself: a change that shortens it takes effect at once.
    if not state.pace.admits(event.wall_ms, decision.configuration.interval_ms):
        if not state.drained or not state.pace.rested(event.wall_ms):
            return state, ()
        state = replace(state, pace=state.pace.looked(event.wall_ms))
        return state, (SettleIdle(stream_ms=event.stream_ms, kept_back=True),)
    return state, (
        PollSources(decision=decision, wall_ms=event.wall_ms, stream_ms=event.stream_ms),
    )


def version_looked(state: LoopState, event: VersionLooked) -> Outcome:
    """Switch the program, or end the changes that want it where it cannot begin; then look again."""
    state, reports = look_succeeded(state)
    todo: Command = SwitchProgram(
        decision=event.decision, stream_ms=event.stream_ms, record=event.record
    )
    if event.reasons:
        todo = FailChanges(reasons=event.reasons, stream_ms=event.stream_ms)
    return state, (*reports, todo, LookAround())


def switched(state: LoopState, event: Switched) -> Outcome:
    """Go by another version of the program. Nothing is in flight."""
    state = state.follow(event.plan, event.manifests, event.times)
    return replace(state, configuration=event.configuration, bad_rows=event.bad_rows), ()


def offered(state: LoopState, event: Offered) -> Outcome:
    """Decide on a timestep over what the sources offer, or one without rows: for timers, or for a control."""
    state, reports = look_succeeded(state)
    slices = event.slices
    if slices is None and state.drained and (event.controlled or _due(state, event.stream_ms)):
        slices = event.nothing
    if slices is None:
        idle = (SettleIdle(stream_ms=event.stream_ms),) if state.drained else ()
        return replace(state, seen_all=True), (*reports, *idle)
    timestep = Timestep(
        number=state.last + 1,
        stream_ms=event.stream_ms,
        configuration=event.decision.configuration,
        slices=slices,
    )
    intent = JournalIntent(decision=event.decision, timestep=timestep, began_ms=event.wall_ms)
    return state, (*reports, intent)


def _due(state: LoopState, stream_ms: int) -> bool:
    return timers_due(state.plan, state.operators, stream_ms)


def idle_settled(state: LoopState, event: IdleSettled) -> Outcome:
    """Go on under the Configuration that holds now, without a timestep."""
    moving = event.moving and not event.kept_back
    return replace(state, configuration=event.configuration, moving=moving), ()


def opened(state: LoopState, event: TimestepOpened) -> Outcome:
    """Have a timestep in flight; then look for the next one."""
    flight = event.flight
    timestep = flight.timestep
    state = replace(
        state,
        in_flight={**state.in_flight, timestep.number: flight},
        schedule=state.schedule.open(timestep.number),
        configuration=timestep.configuration if event.fresh else state.configuration,
        last=max(state.last, timestep.number),
        pace=_paced(state, flight) if event.fresh else state.pace,
    )
    return state, _further(state)


def _paced(state: LoopState, flight: InFlight) -> Pace:
    return state.pace.began(flight.began_ms, flight.timestep.configuration.interval_ms)
