"""What the loop does about failures: timesteps run again, looks at what lies outside are repeated. Pure.

A timestep that failed takes those after it with it: they rest on state that it was to write. All units in flight come
back first; then the timesteps begin from scratch, under the same intents and on committed state. Files of the attempts
before carry their names, and no report names them.
"""

from __future__ import annotations

from msgspec.structs import replace

from rechannel.engine.failures.retries import Retries
from rechannel.engine.loop.core.commands import (
    CancelUnits,
    Command,
    End,
    ReadState,
    Release,
    ReportFailure,
    ReportWell,
)
from rechannel.engine.loop.core.events import LookFailed
from rechannel.engine.loop.core.state import LoopState

Outcome = tuple[LoopState, tuple[Command, ...]]
"""The state after an event, and what is to be done, in order."""


def timestep_failed(state: LoopState, number: int, error: Exception, at_ms: float) -> Outcome:
    """Halt until every unit has come back, or end the job where another try does not help.

    A job that is stopping begins no timestep again: it ends with the error.
    """
    if state.stopping:
        return state, (End(error=error),)
    what = f"timestep {number}"
    tries = state.timesteps.failed(what, error, at_ms)
    if isinstance(tries, Exception):
        return state, (End(error=tries),)
    failure = _reported(number, what, error, tries, at_ms)
    return replace(state, timesteps=tries, halted=True), (failure, CancelUnits())


def look_failed(state: LoopState, event: LookFailed) -> Outcome:
    """Let nothing begin until the next try of a look, or end the job where that does not help."""
    tries = state.looks.failed(event.what, event.error, event.at_ms)
    if isinstance(tries, Exception):
        return state, (End(error=tries),)
    failure = _reported(None, event.what, event.error, tries, event.at_ms)
    return replace(state, looks=tries), (failure,)


def _reported(
    number: int | None, what: str, error: Exception, tries: Retries, at_ms: float
) -> ReportFailure:
    wait = (tries.due_ms or at_ms) - at_ms
    return ReportFailure(
        number=number, what=what, error=error, failures=tries.failures, wait_ms=wait
    )


def look_succeeded(state: LoopState) -> Outcome:
    """Forget failures of looks."""
    if not state.looks.failures:
        return state, ()
    return replace(state, looks=state.looks.well()), (ReportWell(),)


def taken_back(state: LoopState) -> Outcome:
    """Let every timestep in flight begin from scratch, once all of their units have come back."""
    if not state.halted or state.schedule.running:
        return state, ()
    back = tuple(flight.timestep for flight in state.in_flight.values())
    after = replace(
        state,
        in_flight={},
        halted=False,
        replay=(*back, *state.replay),
        schedule=replace(state.schedule, timesteps=(), done=frozenset()),
    )
    releases = tuple(Release(number=timestep.number) for timestep in back)
    # A unit that was planning when its timestep failed has submitted a job since.
    return after, (CancelUnits(), *releases, ReadState())
