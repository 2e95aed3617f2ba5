"""The way in a plan file, field by field: what `Plan.to_json` makes, and nothing else. Pure.

A plan's steps are carried out as they stand, in the driver's thread. So every assignment is one of those that a change
can lead to, with a value of its kind, and every number is one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.reconfigure.changes import Name, complaints
from rechannel.reconfigure.resolve import MOST_TASKS

Hash: TypeAlias = Annotated[str, Field(pattern=r"^[0-9]{1,20}$")]
Task: TypeAlias = Annotated[int, Field(ge=0, lt=MOST_TASKS)]


class Closed(BaseModel):
    """Unknown fields are refused, and numbers that are none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ResourcesInPlan(Closed):
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
ByteBounds: TypeAlias = tuple[None, Literal["byte_bounds"], dict[Name, PositiveInt]]
Executors: TypeAlias = tuple[None, Literal["executors"], PositiveInt | None]
# Of the program: such a plan can be looked at, and is not replayed.
Version: TypeAlias = tuple[None, Literal["dataflow"], PositiveInt]
Logic: TypeAlias = tuple[Name, Literal["logic"], PositiveInt]
New: TypeAlias = tuple[Name, Literal["new"], dict[str, Any]]
Removed: TypeAlias = tuple[Name, Literal["removed"], Literal[True]]
Assignment: TypeAlias = (
    Tasks
    | Starts
    | Combining
    | Needs
    | Placement
    | Interval
    | InFlight
    | Bounds
    | ByteBounds
    | Executors
    | Version
    | Logic
    | New
    | Removed
)
"""Operator (null: the job itself), field, value."""

OF_PROGRAMS = frozenset({"dataflow", "logic", "new", "removed"})
"""Fields that only another version of the dataflow sets."""

Transfer: TypeAlias = tuple[Name, Hash, Hash, Task, Task, NonNegativeFloat]
"""Operator, first hash, end, from task, to task, bytes."""


class StepInPlan(Closed):
    """What happens at one border between timesteps."""

    first: tuple[Assignment, ...] = ()
    moves: tuple[Transfer, ...] = ()
    last: tuple[Assignment, ...] = ()


class AffectedInPlan(Closed):
    """What happens to one operator. tasks: those that give or take bins. placed: those that go to another executor."""

    operator: Name
    tasks: tuple[Task, ...]
    bins: NonNegativeInt
    bytes: NonNegativeFloat
    placed: tuple[Task, ...] = ()
    carried_bytes: NonNegativeFloat = 0.0


class WayInPlan(Closed):
    """All of a plan but what was asked for."""

    steps: tuple[StepInPlan, ...]
    affected: tuple[AffectedInPlan, ...] = ()
    timesteps: NonNegativeInt
    cost_ms: NonNegativeFloat
    advice: tuple[str, ...] = ()


def check_way(data: Mapping[str, Any]) -> None:
    """Refuse a plan whose way is none. Raises RefusedError naming the fields, or what JSON says."""
    way = {name: data[name] for name in WayInPlan.model_fields if name in data}
    try:
        WayInPlan.model_validate_json(json.dumps(way), strict=True)
    except ValidationError as error:
        msg = f"this is no plan ({complaints(error)}); write one with plan.save(path)"
        raise RefusedError(msg) from None
