"""What happens to controllers and their operations, as the journal keeps it: one frozen value per kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rechannel.errors import RefusedError
from rechannel.kernels.tasks.report import ControlReport
from rechannel.model.codec import form
from rechannel.reconfigure.checked import Checked, Kinds

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlEvent(Checked):
    """What all events have."""

    kind = "control event"

    controller: str
    """Name of the controller."""

    time_ms: int
    """When it happened, Unix milliseconds."""


KINDS: Kinds[ControlEvent] = Kinds("control event")
"""Every kind of event."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Installed(ControlEvent):
    """A controller was installed, or found again by a driver that has started with other settings of it."""

    kind = "installed"

    path: str
    """Import path of its class; "" if the class cannot be imported by name."""

    parameters: dict[str, Json] | None = None
    """Arguments of its constructor, if it was installed by its path; None = a program made it."""

    priority: int = 0
    dry_run: bool = False
    seconds: float = 10.0
    """That a callback may take."""
    failures: int = 3
    """After how many callbacks in a row that failed it is suspended."""
    state: Json = None
    """Its first state."""

    @property
    def settings(self) -> tuple[Any, ...]:
        """What a driver that starts with another program may have changed."""
        limits = self.priority, self.dry_run, self.seconds, self.failures
        return (self.path, self.parameters, *limits)


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Removed(ControlEvent):
    """A controller was removed, and with it its operation."""

    kind = "removed"


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Paused(ControlEvent):
    """It begins no operation until it is resumed. An operation that is under way completes."""

    kind = "paused"

    reason: str
    suspended: bool = False
    """Whether the engine did it, after failures."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaused(ControlEvent):
    """It goes on."""

    kind = "unpaused"


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Called(ControlEvent):
    """It was called by hand."""

    kind = "called"


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Handled(ControlEvent):
    """A callback has returned: its state, what it requests, and the operation that it sends."""

    kind = "handled"

    callback: str
    """"begin" or "complete"."""

    operation: str
    """Id of the operation that it began or that is completed; "" if none was sent."""

    state: Json = None

    moment: dict[str, Json] | None = None
    """Of "begin": what its trigger has seen."""

    urgent: bool = False
    """Of "begin": whether the operation has a timestep of its own if no rows arrive."""

    blocking: bool = False
    """Of "begin": whether the operation is a blocking one."""

    changes: bool = False
    """Of "begin": whether the operation makes a change, the first of the requests."""

    requests: tuple[dict[str, Json], ...] = ()

    notes: tuple[str, ...] = ()

    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Metrics that it has set, by name and operator ("" = of none); None = no longer there."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(ControlEvent):
    """A callback has raised or has taken too long. Its state and requests do not count; its operation is over."""

    kind = "failed"

    callback: str
    operation: str
    error: str
    moment: dict[str, Json] | None = None


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped(ControlEvent):
    """An operation is over before it was carried out; its controller may begin another one."""

    kind = "dropped"

    operation: str
    reason: str


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(ControlEvent):
    """A request was accepted or refused."""

    kind = "answered"

    request: int
    """Number of the request among all of the controller."""
    reconfiguration: str = ""
    """Id; "" if it was refused, or only noted (`dry_run`)."""
    refusal: str = ""


def event_from_json(data: Mapping[str, Json]) -> ControlEvent:
    """Invert `to_json`. Raises ValueError."""
    try:
        return KINDS.read(data)
    except RefusedError as error:
        raise ValueError(str(error)) from error


form(ControlEvent, encode=lambda event: event.to_json(), decode=event_from_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An operation whose timestep is committed, with what its last tasks have delivered."""

    operation: str
    reports: tuple[ControlReport, ...] = ()
