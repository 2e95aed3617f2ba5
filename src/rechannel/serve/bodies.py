"""What requests say. Only values: no code travels; a function is named by the import path that the job loads it by."""

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

from rechannel.errors import RefusedError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.together import MOST_CHANGES, one_change
from rechannel.reconfigure.moment import EventMoment, watermark
from rechannel.reconfigure.plan import Plan
from rechannel.serve.outside import OneChange, OneStrategy, PlanFile, check_replayable


def _iso(value: object) -> datetime:
    """Text in ISO 8601; numbers are timesteps, never seconds of some era."""
    if not isinstance(value, str):
        msg = "a time is text in ISO 8601"
        raise ValueError(msg)
    return datetime.fromisoformat(value)


Timestep: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_iso)]
Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
Several: TypeAlias = Annotated[tuple[OneChange, ...], Field(min_length=1, max_length=MOST_CHANGES)]


class Body(BaseModel):
    """A body: fields that are not told of here are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AtEventTime(Body):
    """When event time has come so far (ISO 8601 with its zone). operator: whose; default: of all that change."""

    event_time: Moment
    operator: Words | None = None


def _one_of(*names: str) -> ConfigDict:
    """In the document too: exactly one of these fields, which null is none of."""
    given: list[JsonValue] = [
        {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names
    ]
    return ConfigDict(frozen=True, extra="forbid", json_schema_extra={"oneOf": given})


class PlanBody(Body):
    """A change, or a list of changes that is one, and how gently it shall be made (default: all at once)."""

    model_config = _one_of("change", "changes")

    change: OneChange | None = None
    changes: Several | None = None
    strategy: OneStrategy | None = None

    @model_validator(mode="after")
    def _one(self) -> PlanBody:
        _exactly_one(change=self.change, changes=self.changes)
        return self

    def asked(self) -> Change:
        """The change."""
        return _asked(self.change, self.changes)


class ReconfigureBody(Body):
    """A change, a list of changes that is one, or a plan that POST /plan answered.

    at: the timestep that it holds from, a time of the stream (ISO 8601 with its zone), or an event time. supersede: in
    place of what is still open for the same operators. cause: who asks and why, for the history.
    """

    model_config = _one_of("change", "changes", "plan")

    change: OneChange | None = None
    changes: Several | None = None
    plan: PlanFile | None = None
    strategy: OneStrategy | None = None
    at: Timestep | Moment | AtEventTime | None = None
    supersede: bool = False
    cause: Words = "asked for over HTTP"

    @model_validator(mode="after")
    def _one(self) -> ReconfigureBody:
        _exactly_one(change=self.change, changes=self.changes, plan=self.plan)
        return self

    def asked(self) -> Change | Plan:
        """The change, or the plan. Raises RefusedError for a plan with another strategy, or of the program."""
        if self.plan is None:
            return _asked(self.change, self.changes)
        if self.strategy is not None and self.strategy != self.plan.strategy:
            msg = f"the plan was made for {self.plan.strategy}: leave the strategy away, or plan again"
            raise RefusedError(msg)
        check_replayable(self.plan)
        return self.plan

    def when(self) -> int | datetime | EventMoment | None:
        """From when on; None = as soon as possible."""
        at = self.at
        return watermark(at.event_time, at.operator) if isinstance(at, AtEventTime) else at


class AbortBody(Body):
    """Why a reconfiguration is to end, for the history."""

    reason: Words = "asked for over HTTP"


class Accepted(BaseModel):
    """A reconfiguration was accepted, and journalled. id: what it is called from now on."""

    id: str


class Failure(BaseModel):
    """What went wrong. error: its kind; message: what to do next."""

    error: str
    message: str


def _exactly_one(**given: object) -> None:
    if sum(value is not None for value in given.values()) != 1:
        msg = f"give exactly one of {', '.join(given)}"
        raise ValueError(msg)


def _asked(change: OneChange | None, several: Several | None) -> Change:
    if several is not None:
        return one_change(list(several))
    if change is None:
        msg = "there is no change"
        raise RefusedError(msg)
    return change
