"""A plan that comes from outside, field by field: what `rechannel.Plan.to_json` makes, and nothing else.

A plan's steps are carried out as they stand, in the driver's thread. So every assignment is one of those that a change
over HTTP can lead to, with a value of its kind. Steps that exchange the program are not among them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.reconfigure.changes import AssignLogic, ChangeProgram, Name, Together, parts_of
from rechannel.reconfigure.plan import FORMAT, Plan
from rechannel.reconfigure.resolve import MOST_TASKS
from rechannel.reconfigure.strategies import Strategy
from rechannel.serve.outside import OneChange

Hash: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
Task: TypeAlias = Annotated[int, Field(ge=0, lt=MOST_TASKS)]


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ResourcesInPlan(_Closed):
    """What every task needs."""

    cpus: PositiveInt
    memory_mb: PositiveInt | None = None
    amounts: dict[Name, PositiveFloat] = {}


Tasks: TypeAlias = tuple[Name, Literal["tasks"], Annotated[int, Field(ge=1, le=MOST_TASKS)]]
Starts: TypeAlias = tuple[Name, Literal["starts"], Annotated[tuple[Hash, ...], Field(min_length=1)]]
Combining: TypeAlias = tuple[Name, Literal["combine"], Combine]
Needs: TypeAlias = tuple[Name, Literal["resources"], ResourcesInPlan | None]
Placement: TypeAlias = tuple[Name, Literal["placement"], tuple[tuple[Task, Name], ...]]
Interval: TypeAlias = tuple[None, Literal["interval_ms"], NonNegativeInt]
InFlight: TypeAlias = tuple[None, Literal["in_flight"], Annotated[int, Field(ge=1, le=64)]]
Bounds: TypeAlias = tuple[None, Literal["bounds"], dict[Name, PositiveInt]]
Executors: TypeAlias = tuple[None, Literal["executors"], PositiveInt | None]
Assignment: TypeAlias = (
    Tasks | Starts | Combining | Needs | Placement | Interval | InFlight | Bounds | Executors
)
"""Operator (null: the job itself), field, value."""

Transfer: TypeAlias = tuple[Name, Hash, Hash, Task, Task, NonNegativeFloat]
"""Operator, first hash, end, from task, to task, bytes."""


class StepInPlan(_Closed):
    """What happens at one border between timesteps."""

    first: tuple[Assignment, ...] = ()
    moves: tuple[Transfer, ...] = ()
    last: tuple[Assignment, ...] = ()


class AffectedInPlan(_Closed):
    """What happens to one operator. tasks: those that give or take bins."""

    operator: Name
    tasks: tuple[Task, ...]
    bins: NonNegativeInt
    bytes: NonNegativeFloat


class PlanFile(_Closed):
    """A plan as POST /plan answers it."""

    format: Annotated[int, Field(ge=1, le=FORMAT)]
    change: Annotated[OneChange | Together, Field(discriminator="kind")]
    strategy: Strategy
    steps: tuple[StepInPlan, ...]
    affected: tuple[AffectedInPlan, ...] = ()
    timesteps: NonNegativeInt
    cost_ms: NonNegativeFloat
    advice: tuple[str, ...] = ()

    def plan(self) -> Plan:
        """The plan. Raises RefusedError for one that exchanges the program."""
        if any(isinstance(part, AssignLogic | ChangeProgram) for part in parts_of(self.change)):
            msg = "a plan that exchanges the program is not replayed over HTTP: ask for its change"
            raise RefusedError(msg)
        data: dict[str, Any] = self.model_dump(mode="json")
        return Plan.from_json(data)
