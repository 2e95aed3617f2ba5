"""What happens to the loop (events) and what it wants done (commands): plain values. Pure.

A turn of the driver is four events, in this order: `Begin`, `Open`, `Start`, `Commit`; before them comes what units
have brought back. A command may be answered by an event, which is decided on before the next command is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.engine.loop.core.schedule import Unit
from rechannel.engine.loop.core.state import InFlight
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.stages.runner import SourceSlice, Timestep
from rechannel.kernels.protocol.program import StageStep
from rechannel.kernels.tasks.report import TaskReport
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.coordinator import Decision
from rechannel.state.manifest import Manifest

# Events ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitDone:
    """A unit came back with its reports."""

    unit: Unit
    reports: Sequence[TaskReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFailed:
    """A unit came back without having done its work."""

    unit: Unit
    error: Exception
    at_ms: float
    """Of the clock that only passes, as all `at_ms` of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A turn begins."""

    stopping: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Timesteps may be decided."""

    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Units may be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A timestep may be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A turn is over in which nothing happened, or which goes on without timesteps."""

    asked: int
    """How many had asked for an answer when everything is processed, before the turn began."""
    fetching: bool
    """Whether a change waits for state that is on its way."""
    published: bool
    """Whether everything that is committed is published."""
    now_ms: float
    polled_ms: float
    """How long it took to ask sources that had nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRead:
    """Answers `ReadState`: what the journal says of the operators."""

    manifests: Mapping[str, Manifest]
    times: Mapping[str, Times]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesAnswered:
    """Answers `AnswerChanges`. happened: whether a request was answered or a preparation came back."""

    happened: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Answers `LookAround`."""

    now_ms: float
    """Unix milliseconds."""
    time_ms: int
    """Time of the stream."""
    room: bool
    """Whether the sinks' backlog admits another timestep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Answers `AskCoordinator`: how the next timestep would begin."""

    decision: Decision
    now_ms: float
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionLooked:
    """Answers `LookAtVersion`."""

    decision: Decision
    time_ms: int
    against: Mapping[str, str]
    """Why the version cannot begin here, by the change that wants it."""
    record: Mapping[str, Any]
    """What the journal keeps of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """Answers `SwitchProgram`: another version of the program holds from the next timestep on."""

    configuration: Configuration
    plan: PhysicalPlan
    manifests: Mapping[str, Manifest]
    times: Mapping[str, Times]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """Answers `PollSources`."""

    decision: Decision
    now_ms: float
    time_ms: int
    slices: Mapping[str, SourceSlice] | None
    """What a timestep would read; None = there is nothing new."""
    nothing: Mapping[str, SourceSlice]
    """What a timestep reads that is there only for rows whose time has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookFailed:
    """Answers `LookAtVersion` or `PollSources`: what lies outside could not be looked at."""

    what: str
    error: Exception
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSettled:
    """Answers `SettleIdle`: changes were made without a timestep."""

    configuration: Configuration
    moving: bool
    """Whether another look would bring them further."""
    kept_back: bool
    """Whether only the interval kept a timestep back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Answers `JournalIntent` and `OpenAgain`: the timestep is in flight."""

    flight: InFlight
    fresh: bool
    """Whether it was decided now; False = it runs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Answers `StageSinks`: what the commit has to name, by sink."""

    number: int
    staged: Mapping[str, Any]
    ran_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFailed:
    """Answers `StageSinks`: a sink that writes before the commit could not."""

    number: int
    error: Exception
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Answers `JournalCommit`: the timestep is in the journal."""

    number: int
    staged: Mapping[str, Any]
    ran_ms: float
    committed_ms: float


Event = (
    UnitDone
    | UnitFailed
    | Begin
    | Open
    | Start
    | Commit
    | Rest
    | StateRead
    | ChangesAnswered
    | Around
    | Decided
    | VersionLooked
    | Switched
    | Offered
    | LookFailed
    | IdleSettled
    | Opened
    | Staged
    | StageFailed
    | Committed
)

# Commands ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """Read from the journal what state is committed; answered by `StateRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChanges:
    """Answer what other threads ask for, and have the next things prepared; answered by `ChangesAnswered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAround:
    """Look at the clocks and the sinks' backlog; answered by `Around`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskCoordinator:
    """Ask how the next timestep would begin; answered by `Decided`."""

    now_ms: float
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAtVersion:
    """Look whether another version of the program can begin here; answered by `VersionLooked` or `LookFailed`."""

    decision: Decision
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailChanges:
    """End changes of the program that cannot begin after all."""

    against: Mapping[str, str]
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchProgram:
    """Journal another version of the program, then begin with it; answered by `Switched`."""

    decision: Decision
    time_ms: int
    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollSources:
    """Ask the sources what they have; answered by `Offered` or `LookFailed`."""

    decision: Decision
    now_ms: float
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleIdle:
    """Make the changes that are due without a timestep; answered by `IdleSettled`."""

    time_ms: int
    kept_back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalIntent:
    """Journal what was decided of a timestep, then let the runner know of it; answered by `Opened`."""

    decision: Decision
    decided: Timestep
    began_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAgain:
    """Let the runner know of a timestep whose intent is in the journal already; answered by `Opened`."""

    decided: Timestep
    began_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUnits:
    """Run units; each comes back as `UnitDone` or `UnitFailed`."""

    units: Mapping[Unit, StageStep]
    alone: bool
    """Whether nothing else runs: the driver's own thread may do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Let the runner know of the files of a timestep in sink buffers, by node."""

    number: int
    files: Mapping[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOperators:
    """Tell the listener that operators are done with a timestep."""

    number: int
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSinks:
    """Stage the rows of sinks that write before the commit; answered by `Staged` or `StageFailed`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalCommit:
    """Journal the commit of the oldest timestep; answered by `Committed`."""

    number: int
    staged: Mapping[str, Any]
    ran_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Hand a committed timestep to the sinks."""

    flight: InFlight
    staged: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Free what a timestep holds in the runner."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetInput:
    """Let the sources forget what a committed timestep has read."""

    decided: Timestep


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Measure a committed timestep, and end the changes that made their last step with it."""

    flight: InFlight
    committed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportCommit:
    """Tell the listener of a committed timestep."""

    flight: InFlight
    ran_ms: float
    committed_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Count a commit towards the next removal of files that nothing refers to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFailure:
    """Tell the listener what failed and when it is tried again. number: of a timestep; None = a look."""

    number: int | None
    what: str
    error: Exception
    failures: int
    wait_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWell:
    """Tell the listener that what had failed has succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelUnits:
    """Stop the units that run: their timesteps run again from scratch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDrains:
    """Tell those who asked that everything they had asked for is processed."""

    asked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitEvent:
    """Wait until a unit comes back or another thread wants something."""

    at_most_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
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

WORK = (JournalIntent, OpenAgain, ReadState, StageSinks, StartUnits)
"""Commands that bring a timestep further: a turn that gives one is followed by the next one without a pause."""
