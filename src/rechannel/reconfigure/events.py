"""What happens to a reconfiguration, as the journal keeps it: one frozen value per kind of event. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from rechannel.errors import RefusedError
from rechannel.model.codec import form
from rechannel.reconfigure.checked import Checked, Kinds

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Checked):
    """What all events have."""

    kind = "event"

    id: str
    """Of the reconfiguration."""

    time_ms: int
    """When it happened, Unix milliseconds."""


KINDS: Kinds[Event] = Kinds("event")
"""Every kind of event."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Requested(Event):
    """A request was accepted."""

    kind = "requested"

    change: dict[str, Json]
    """The change as JSON."""

    strategy: dict[str, Json]
    """The strategy as JSON."""

    cause: str
    """Who or what requested it, in words."""

    at_timestep: int | None = None
    """The timestep that it shall hold from. Without any moment: as soon as possible."""

    at_ms: int | None = None
    """The time of the stream that it shall hold from, Unix milliseconds."""

    at_event: dict[str, Json] | None = None
    """The event time that it shall hold from, as JSON of an `EventMoment`."""

    steps: tuple[dict[str, Json], ...] | None = None
    """Steps of a plan that was made earlier; None = they are planned when it begins."""

    supersedes: tuple[str, ...] = ()
    """Ids of the reconfigurations that end with this request."""

    origin: str = ""
    """Which request of which controller it is; "" = of none."""

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values. The origin is left out if there is none, as in earlier journals."""
        plain = Checked.to_json(self)
        if not self.origin:
            del plain["origin"]
        return plain


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Event):
    """Everything that can be done ahead is done."""

    kind = "prepared"

    facts: dict[str, Json] = field(default_factory=dict)
    """What that was: bytes fetched, functions loaded, executors started."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Event):
    """Its steps are fixed; the first one is due."""

    kind = "planned"

    steps: tuple[dict[str, Json], ...]
    """All steps, as JSON."""

    base: dict[str, Json]
    """What it will change, as it is now, for the way back."""

    advice: str = ""
    """What it cannot achieve, and what would, in words."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Event):
    """A timestep begins with its next step."""

    kind = "stepped"

    timestep: int
    """The timestep that begins with the step."""

    moves: int | None = None
    """How many of the step's moves were made; None = all."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Reversed(Event):
    """It was aborted between two of its steps, and is led back."""

    kind = "reversed"

    steps: tuple[dict[str, Json], ...]
    """The steps that lead back, as JSON."""

    reason: str
    """Why it was aborted, in words."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Event):
    """The next driver takes it up."""

    kind = "resumed"

    timestep: int
    """The first timestep that this driver decides."""

    unplaced: bool = False
    """Whether executors have other names from here on: its steps, and its way back, place no tasks."""


@KINDS.register
@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Event):
    """The reconfiguration has ended."""

    kind = "finished"

    outcome: Literal["done", "undone", "aborted", "superseded", "failed"]
    """How it ended: a `record.Phase`."""

    reason: str = ""
    """Why, in words, unless it is simply done."""

    facts: dict[str, Json] = field(default_factory=dict)
    """What was done ahead in all, if preparation went on after it was prepared."""


def event_from_json(data: Mapping[str, Json]) -> Event:
    """Invert `to_json`. Raises ValueError."""
    try:
        return KINDS.read(data)
    except RefusedError as error:
        raise ValueError(str(error)) from error


def stepped_from_json(data: Mapping[str, Json]) -> Stepped:
    """A step in an intent. Raises ValueError."""
    event = event_from_json(data)
    if not isinstance(event, Stepped):
        msg = f"expected a step, got an event of kind {event.kind!r}"
        raise ValueError(msg)
    return event


form(Event, encode=lambda event: event.to_json(), decode=event_from_json)
form(Stepped, encode=lambda event: event.to_json(), decode=stepped_from_json)
