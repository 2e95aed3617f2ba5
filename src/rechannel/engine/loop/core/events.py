"""What happens to the loop: plain values. Pure.

A turn of the driver is four events, in this order: `Begin`, `Open`, `Start`, `Commit`; before them comes what units
have brought back. The other events answer commands (`commands.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from rechannel.engine.loop.core.schedule import Unit
from rechannel.engine.loop.core.state import InFlight
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.stages.runner import SourceSlice
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.bad_rows import Pasts
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.reconfigure.coordinator import Decision
from rechannel.state.manifest import Manifest


class UnitDone(Struct, frozen=True, kw_only=True):
    """A unit came back with its reports."""

    unit: Unit
    reports: Sequence[UnitReport]


class UnitFailed(Struct, frozen=True, kw_only=True):
    """A unit came back without having done its work."""

    unit: Unit
    error: Exception
    at_ms: float
    """Of the clock that only passes, as all `at_ms` of failures."""


class Begin(Struct, frozen=True, kw_only=True):
    """A turn begins."""

    stopping: bool


class Open(Struct, frozen=True, kw_only=True):
    """Timesteps may be decided."""

    at_ms: float


class Start(Struct, frozen=True, kw_only=True):
    """Units may be started."""


class Commit(Struct, frozen=True, kw_only=True):
    """A timestep may be committed."""


class Rest(Struct, frozen=True, kw_only=True):
    """A turn is over in which nothing happened, or which goes on without timesteps."""

    asked: int
    """How many had asked for an answer when everything is processed, before the turn began."""
    fetching: bool
    """Whether a change waits for state that is on its way."""
    published: bool
    """Whether everything that is committed is published."""
    wall_ms: float
    polled_ms: float
    """How long it took to ask sources that had nothing."""


class StateRead(Struct, frozen=True, kw_only=True):
    """Answers `ReadState`: what the journal says of the operators."""

    manifests: Mapping[str, Manifest]
    times: Mapping[str, Times]


class ChangesAnswered(Struct, frozen=True, kw_only=True):
    """Answers `AnswerChanges`. happened: whether a request was answered or a preparation came back."""

    happened: bool


class Around(Struct, frozen=True, kw_only=True):
    """Answers `LookAround`."""

    wall_ms: float
    """Of the clock, Unix milliseconds."""
    stream_ms: int
    """Time of the stream, Unix milliseconds."""
    room: bool
    """Whether the sinks' backlog admits another timestep."""


class Decided(Struct, frozen=True, kw_only=True):
    """Answers `AskCoordinator`: how the next timestep would begin."""

    decision: Decision
    wall_ms: float
    stream_ms: int


class VersionLooked(Struct, frozen=True, kw_only=True):
    """Answers `LookAtVersion`."""

    decision: Decision
    stream_ms: int
    reasons: Mapping[str, str]
    """Why the version cannot begin here, by the change that wants it."""
    record: Mapping[str, Any]
    """What the journal keeps of it."""


class Switched(Struct, frozen=True, kw_only=True):
    """Answers `SwitchProgram`: another version of the program holds from the next timestep on."""

    configuration: Configuration
    plan: PhysicalPlan
    manifests: Mapping[str, Manifest]
    times: Mapping[str, Times]
    bad_rows: Pasts
    """What operators that go on have counted."""


class Offered(Struct, frozen=True, kw_only=True):
    """Answers `PollSources`."""

    decision: Decision
    wall_ms: float
    stream_ms: int
    slices: Mapping[str, SourceSlice] | None
    """What a timestep would read; None = there is nothing new."""
    nothing: Mapping[str, SourceSlice]
    """What a timestep reads that is there only for rows whose time has come."""
    controlled: bool = False
    """Whether a control operation waits for a timestep."""


class LookFailed(Struct, frozen=True, kw_only=True):
    """Answers `LookAtVersion` or `PollSources`: what lies outside could not be looked at."""

    what: str
    error: Exception
    at_ms: float


class IdleSettled(Struct, frozen=True, kw_only=True):
    """Answers `SettleIdle`: changes were made without a timestep."""

    configuration: Configuration
    moving: bool
    """Whether another look would bring them further."""
    kept_back: bool
    """Whether only the interval kept a timestep back."""


class TimestepOpened(Struct, frozen=True, kw_only=True):
    """Answers `JournalIntent` and `OpenAgain`: the timestep is in flight."""

    flight: InFlight
    fresh: bool
    """Whether it was decided now; False = it runs again."""


class Staged(Struct, frozen=True, kw_only=True):
    """Answers `StageSinks`: what the commit has to name, by sink."""

    number: int
    staged: Mapping[str, Any]
    ran_ms: float


class StageFailed(Struct, frozen=True, kw_only=True):
    """Answers `StageSinks`: a sink that writes before the commit could not."""

    number: int
    error: Exception
    at_ms: float


class TimestepCommitted(Struct, frozen=True, kw_only=True):
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
    | TimestepOpened
    | Staged
    | StageFailed
    | TimestepCommitted
)
