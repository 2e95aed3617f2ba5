"""What the loop wants done: plain values. Pure.

A command may be answered by an event (`events.py`), which is decided on before the next command is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rechannel.engine.loop.core.schedule import Unit
from rechannel.engine.loop.core.state import InFlight
from rechannel.engine.stages.runner import Timestep
from rechannel.kernels.protocol.program import StageStep
from rechannel.reconfigure.coordinator import Decision


class ReadState(Struct, frozen=True, kw_only=True):
    """Read from the journal what state is committed; answered by `StateRead`."""


class AnswerChanges(Struct, frozen=True, kw_only=True):
    """Answer what other threads ask for, and have the next things prepared; answered by `ChangesAnswered`."""


class LookAround(Struct, frozen=True, kw_only=True):
    """Look at the clocks and the sinks' backlog; answered by `Around`."""


class AskCoordinator(Struct, frozen=True, kw_only=True):
    """Ask how the next timestep would begin; answered by `Decided`."""

    wall_ms: float
    stream_ms: int


class LookAtVersion(Struct, frozen=True, kw_only=True):
    """Look whether another version of the program can begin here; answered by `VersionLooked` or `LookFailed`."""

    decision: Decision
    stream_ms: int


class FailChanges(Struct, frozen=True, kw_only=True):
    """End changes of the program that cannot begin after all."""

    reasons: Mapping[str, str]
    stream_ms: int


class SwitchProgram(Struct, frozen=True, kw_only=True):
    """Journal another version of the program, then begin with it; answered by `Switched`."""

    decision: Decision
    stream_ms: int
    record: Mapping[str, Any]


class PollSources(Struct, frozen=True, kw_only=True):
    """Ask the sources what they have; answered by `Offered` or `LookFailed`."""

    decision: Decision
    wall_ms: float
    stream_ms: int


class SettleIdle(Struct, frozen=True, kw_only=True):
    """Make the changes that are due without a timestep; answered by `IdleSettled`."""

    stream_ms: int
    kept_back: bool = False


class JournalIntent(Struct, frozen=True, kw_only=True):
    """Journal what was decided of a timestep, then let the runner know of it; answered by `TimestepOpened`."""

    decision: Decision
    timestep: Timestep
    began_ms: float


class OpenAgain(Struct, frozen=True, kw_only=True):
    """Let the runner know of a timestep whose intent is in the journal already; answered by `TimestepOpened`."""

    timestep: Timestep
    began_ms: float


class StartUnits(Struct, frozen=True, kw_only=True):
    """Run units; each comes back as `UnitDone` or `UnitFailed`."""

    units: Mapping[Unit, StageStep]
    alone: bool
    """Whether the driver has nothing else to do, and timesteps are short: its own thread may do it."""


class Keep(Struct, frozen=True, kw_only=True):
    """Let the runner know of the files of a timestep in sink buffers, by node."""

    number: int
    files: Mapping[str, list[str]]


class ReportOperators(Struct, frozen=True, kw_only=True):
    """Tell the listener that operators are done with a timestep."""

    number: int
    operators: tuple[str, ...]


class StageSinks(Struct, frozen=True, kw_only=True):
    """Stage the rows of sinks that write before the commit; answered by `Staged` or `StageFailed`."""

    number: int


class JournalCommit(Struct, frozen=True, kw_only=True):
    """Journal the commit of the oldest timestep; answered by `TimestepCommitted`."""

    number: int
    staged: Mapping[str, Any]
    ran_ms: float


class Publish(Struct, frozen=True, kw_only=True):
    """Hand a committed timestep to the sinks."""

    flight: InFlight
    staged: Mapping[str, Any]


class Release(Struct, frozen=True, kw_only=True):
    """Free what a timestep holds in the runner."""

    number: int


class ForgetInput(Struct, frozen=True, kw_only=True):
    """Let the sources forget what a committed timestep has read."""

    timestep: Timestep


class Account(Struct, frozen=True, kw_only=True):
    """Measure a committed timestep, and end the changes that made their last step with it."""

    flight: InFlight
    committed_ms: float


class ReportCommit(Struct, frozen=True, kw_only=True):
    """Tell the listener of a committed timestep."""

    flight: InFlight
    ran_ms: float
    committed_ms: float


class Sweep(Struct, frozen=True, kw_only=True):
    """Count a commit towards the next removal of files that nothing refers to."""


class ReportFailure(Struct, frozen=True, kw_only=True):
    """Tell the listener what failed and when it is tried again. number: of a timestep; None = a look."""

    number: int | None
    what: str
    error: Exception
    failures: int
    wait_ms: float


class ReportWell(Struct, frozen=True, kw_only=True):
    """Tell the listener that what had failed has succeeded."""


class CancelUnits(Struct, frozen=True, kw_only=True):
    """Stop the units that run: their timesteps run again from scratch."""


class AnswerDrains(Struct, frozen=True, kw_only=True):
    """Tell those who asked that everything they had asked for is processed."""

    asked: int


class AwaitEvent(Struct, frozen=True, kw_only=True):
    """Wait until a unit comes back or another thread wants something."""

    at_most_ms: float | None = None


class End(Struct, frozen=True, kw_only=True):
    """End the job with an error."""

    error: Exception


Command = (
    ReadState
    | AnswerChanges
    | LookAround
    | AskCoordinator
    | LookAtVersion
    | FailChanges
    | SwitchProgram
    | PollSources
    | SettleIdle
    | JournalIntent
    | OpenAgain
    | StartUnits
    | Keep
    | ReportOperators
    | StageSinks
    | JournalCommit
    | Publish
    | Release
    | ForgetInput
    | Account
    | ReportCommit
    | Sweep
    | ReportFailure
    | ReportWell
    | CancelUnits
    | AnswerDrains
    | AwaitEvent
    | End
)

WORK = frozenset({JournalIntent, OpenAgain, ReadState, StageSinks, StartUnits})
"""Commands that bring a timestep further: a turn that gives one is followed by the next one without a pause."""
