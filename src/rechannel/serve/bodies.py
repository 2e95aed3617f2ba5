"""Request bodies. They hold values and no code; a function is named by the import path that the job loads it from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)

from rechannel.control.controller import MOST_CALLBACK_SECONDS, NAMES
from rechannel.control.loading import MOST_PARAMETERS, Wanted
from rechannel.engine.journal.savepoints import NAMES as SAVEPOINT_NAMES
from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.together import MOST_CHANGES, one_change
from rechannel.reconfigure.moment import EventMoment, watermark
from rechannel.reconfigure.plan import Plan
from rechannel.serve.body_fields import OneChange, OneStrategy, PlanFile, check_replayable


def _iso(value: object) -> datetime:
    """Read a text in ISO 8601; numbers are timesteps, never seconds."""
    if not isinstance(value, str):
        msg = "a time must be a string in ISO 8601, such as 2026-01-31T12:00:00Z"
        raise ValueError(msg)
    return datetime.fromisoformat(value)


Timestep: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_iso)]
Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
Several: TypeAlias = Annotated[tuple[OneChange, ...], Field(min_length=1, max_length=MOST_CHANGES)]


class Body(BaseModel):
    """A body; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AtEventTime(Body):
    """When watermarks have reached a time."""

    event_time: Annotated[Moment, Field(description="ISO 8601 with a time zone.")]
    operator: Annotated[
        Words | None, Field(description="Whose watermark; default: of all operators that change.")
    ] = None


def _one_of(*names: str) -> ConfigDict:
    """In the OpenAPI document, too: exactly one of these fields is given, and not null."""
    given: list[JsonValue] = [
        {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names
    ]
    return ConfigDict(frozen=True, extra="forbid", json_schema_extra={"oneOf": given})


class PlanBody(Body):
    """A change, or a list of changes that is one, and its strategy (default: all at once)."""

    model_config = _one_of("change", "changes")

    change: OneChange | None = None
    changes: Several | None = None
    strategy: OneStrategy | None = None

    @model_validator(mode="after")
    def _check_exclusive(self) -> PlanBody:
        _exactly_one(change=self.change, changes=self.changes)
        return self

    def to_change(self) -> Change:
        """Return the change that the body describes."""
        return _change_of(self.change, self.changes)


class ReconfigureBody(Body):
    """A change, a list of changes that is one, or a plan that POST /plan answered."""

    model_config = _one_of("change", "changes", "plan")

    change: OneChange | None = None
    changes: Several | None = None
    plan: PlanFile | None = None
    strategy: OneStrategy | None = None
    at: Annotated[
        Timestep | Moment | AtEventTime | None,
        Field(
            description="From when it holds: a timestep, a time of the stream (ISO 8601), or an event time."
        ),
    ] = None
    supersede: Annotated[
        bool, Field(description="Take the place of open changes of the same operators.")
    ] = False
    cause: Annotated[Words, Field(description="Who requests it and why, for the history.")] = (
        "asked for over HTTP"
    )

    @model_validator(mode="after")
    def _check_exclusive(self) -> ReconfigureBody:
        _exactly_one(change=self.change, changes=self.changes, plan=self.plan)
        return self

    def to_change(self) -> Change | Plan:
        """The change, or the plan. Raises RefusedError for another strategy, or a plan that switches the program."""
        if self.plan is None:
            return _change_of(self.change, self.changes)
        if self.strategy is not None and self.strategy != self.plan.strategy:
            msg = f"the plan was made for {self.plan.strategy}: omit the strategy, or plan again"
            raise RefusedError(msg)
        check_replayable(self.plan)
        return self.plan

    def when(self) -> int | datetime | EventMoment | None:
        """From when it holds; None = as soon as possible."""
        return _moment_of(self.at)


class DeployPlanBody(Body):
    """A program's file on the server's own disk, which is imported there."""

    file: Annotated[
        Words,
        Field(description="A Python file in a place that `serve(programs=...)` allows."),
    ]
    name: Annotated[
        Words | None, Field(description="The variable of its job; default: the only one.")
    ] = None
    sha256: Annotated[
        Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None,
        Field(description="Of the file; another one is refused."),
    ] = None
    without: Annotated[
        tuple[Words, ...],
        Field(
            description="Operators whose state, or sources whose offsets are dropped.",
            max_length=MOST_CHANGES,
        ),
    ] = ()


class DeployBody(DeployPlanBody):
    """A program's file that takes over, and when."""

    at: Annotated[
        Timestep | Moment | AtEventTime | None,
        Field(description="From when it holds, as for POST /reconfigure."),
    ] = None
    supersede: Annotated[
        bool, Field(description="Take the place of another change of the program.")
    ] = False
    cause: Annotated[Words, Field(description="Who requests it and why, for the history.")] = (
        "asked for over HTTP"
    )

    def when(self) -> int | datetime | EventMoment | None:
        """From when it holds; None = as soon as possible."""
        return _moment_of(self.at)


class SavepointBody(Body):
    """A name for the latest committed timestep."""

    name: Annotated[str, Field(pattern=f"^{SAVEPOINT_NAMES.pattern}$")]
    cause: Annotated[Words, Field(description="Who asks and why, for the history.")] = (
        "asked for over HTTP"
    )


class SavepointDropBody(Body):
    """Why a savepoint is dropped, for the history."""

    cause: Words = "asked for over HTTP"


class AbortBody(Body):
    """Why a reconfiguration is aborted, for the history."""

    reason: Words = "asked for over HTTP"


class InstallBody(Body):
    """A controller, by the import path of its class."""

    path: Annotated[Words, Field(description="`module:name` of a class in an allowed module.")]
    parameters: Annotated[
        dict[str, JsonValue],
        Field(
            description="Arguments of its constructor, converted strictly to its annotations.",
            max_length=MOST_PARAMETERS,
        ),
    ] = {}
    name: Annotated[
        Annotated[str, Field(pattern=f"^{NAMES.pattern}$")] | None,
        Field(description="By which it is listed; default: the name of the class in lower case."),
    ] = None
    priority: Annotated[
        int,
        Field(ge=-(2**31), le=2**31, description="Its changes supersede those of lower ones."),
    ] = 0
    dry_run: Annotated[bool, Field(description="Write its requests to its log only.")] = False
    seconds: Annotated[
        float, Field(gt=0, le=MOST_CALLBACK_SECONDS, description="That a callback may take.")
    ] = 10.0
    failures: Annotated[
        int,
        Field(ge=1, le=2**31, description="Failed callbacks in a row that suspend it."),
    ] = 3

    def wanted(self) -> Wanted:
        """Return what the body asks for."""
        return Wanted(**dict(self))


class PauseBody(Body):
    """Why a controller is paused, for its status and its log."""

    reason: Words = "asked for over HTTP"


class EmptyBody(Body):
    """Nothing has to be said."""


class Accepted(BaseModel):
    """A reconfiguration was accepted and journalled."""

    id: Annotated[str, Field(description="Id of the reconfiguration.")]


class Failure(BaseModel):
    """The body of an answer to a failed request."""

    error: Annotated[str, Field(description="Kind of the error.")]
    message: Annotated[str, Field(description="What is wrong, and what to do next.")]


def _moment_of(at: int | datetime | AtEventTime | None) -> int | datetime | EventMoment | None:
    return watermark(at.event_time, at.operator) if isinstance(at, AtEventTime) else at


def _exactly_one(**given: object) -> None:
    if sum(value is not None for value in given.values()) != 1:
        msg = f"give exactly one of {', '.join(given)}"
        raise ValueError(msg)


def _change_of(change: OneChange | None, several: Several | None) -> Change:
    if several is not None:
        return one_change(list(several))
    if change is None:
        msg = "there is no change"
        raise RefusedError(msg)
    return change
