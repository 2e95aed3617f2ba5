"""What happens to a reconfiguration, as the journal keeps it: one frozen value per kind of event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

Json: TypeAlias = Any


class _Event(BaseModel):
    """id: of the reconfiguration. time_ms: Unix milliseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    time_ms: int

    def to_json(self) -> dict[str, Json]:
        """Plain JSON values."""
        data: dict[str, Json] = self.model_dump(mode="json")
        return data


class Requested(_Event):
    """A change was asked for and not refused.

    change, strategy: as JSON. cause: who or what asked, in words. at_timestep, at_ms, at_event: when it shall hold
    from; all None = as soon as possible. steps: fixed ones, of a plan that was made before; None = they are planned at
    the border. supersedes: ids of those that end with this request.
    """

    kind: Literal["requested"] = "requested"
    change: dict[str, Json]
    strategy: dict[str, Json]
    cause: str
    at_timestep: int | None = None
    at_ms: int | None = None
    at_event: dict[str, Json] | None = None
    steps: tuple[dict[str, Json], ...] | None = None
    supersedes: tuple[str, ...] = ()


class Prepared(_Event):
    """All that can be done ahead is done. facts: what that was (bytes fetched, functions loaded, executors there)."""

    kind: Literal["prepared"] = "prepared"
    facts: dict[str, Json] = {}


class Planned(_Event):
    """Its steps are fixed; the first one is due.

    base: what it will change, as it was, for the way back. advice: what it cannot do, and what would, in words.
    """

    kind: Literal["planned"] = "planned"
    steps: tuple[dict[str, Json], ...]
    base: dict[str, Json]
    advice: str = ""


class Stepped(_Event):
    """A timestep begins with its next step. moves: how many of the step's moves were made; None = all."""

    kind: Literal["stepped"] = "stepped"
    timestep: int
    moves: int | None = None


class Reversed(_Event):
    """It was aborted while it was under way: these steps lead back. reason: in words."""

    kind: Literal["reversed"] = "reversed"
    steps: tuple[dict[str, Json], ...]
    reason: str


class Resumed(_Event):
    """A driver that was started again takes it up.

    timestep: the first that this driver decides. unplaced: executors have other names from here on, so that its steps
    and its way back put no tasks anywhere.
    """

    kind: Literal["resumed"] = "resumed"
    timestep: int
    unplaced: bool = False


class Finished(_Event):
    """It is over.

    outcome: see `record.Phase`. reason: in words, where it is not simply done. facts: what was done ahead in all,
    where that went on after it was prepared.
    """

    kind: Literal["finished"] = "finished"
    outcome: Literal["done", "undone", "aborted", "superseded", "failed"]
    reason: str = ""
    facts: dict[str, Json] = {}


Event: TypeAlias = Annotated[
    Requested | Prepared | Planned | Stepped | Reversed | Resumed | Finished,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Event)


def event_from_json(data: Mapping[str, Json]) -> Event:
    """Invert `to_json`. Raises ValueError."""
    event: Event = _ADAPTER.validate_python(dict(data))
    return event
