"""The way in a plan file, checked field by field: what `Plan.to_json` writes, and nothing else. Pure.

A plan's steps are carried out unchanged, in the driver's thread. So every assignment has to be one that a change can
lead to, with a value of its type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.reconfigure.changes.operators import MOST_TASKS
from rechannel.reconfigure.checked import (
    FINITE,
    Name,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from rechannel.reconfigure.topology.values import Tasks

Hash: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9]{1,20}$")]
Task: TypeAlias = Annotated[int, Meta(ge=0, lt=MOST_TASKS)]
Size: TypeAlias = Annotated[float, Meta(ge=0, le=FINITE)]


class ResourcesInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """What each task needs."""

    cpus: PositiveInt
    memory_mb: PositiveInt | None = None
    amounts: dict[Name, PositiveFloat] = {}


class SpreadBinInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """A bin that several tasks share."""

    lo: Hash
    hi: Hash
    tasks: Annotated[tuple[Task, ...], Meta(min_length=2)]
    side: Annotated[int, Meta(ge=0, le=1)]
    cut: tuple[Hash, ...] = ()


OF_OPERATORS: Mapping[str, Any] = {
    "tasks": Annotated[int, Meta(ge=1, le=MOST_TASKS)],
    "starts": Annotated[tuple[Hash, ...], Meta(min_length=1)],
    "spreads": tuple[SpreadBinInPlan, ...],
    "combine": Combine,
    "resources": ResourcesInPlan | None,
    "placement": tuple[tuple[Task, Name], ...],
}
"""Fields of an operator that a step may set, and their types."""

OF_JOB: Mapping[str, Any] = {
    "interval_ms": NonNegativeInt,
    "in_flight": Annotated[int, Meta(ge=1, le=64)],
    "bounds": dict[Name, PositiveInt],
    "byte_bounds": dict[Name, PositiveInt],
    "executors": PositiveInt | None,
}
"""Fields of the Configuration itself that a step may set, and their types."""

OF_PROGRAMS: Mapping[str, Any] = {
    "dataflow": PositiveInt,
    "logic": PositiveInt,
    "new": dict[str, Any],
    "removed": bool,
}
"""Fields that only another version of the dataflow sets. Such a plan can be shown, and cannot be replayed."""

Assignment: TypeAlias = tuple[Name | None, str, Any]
"""Operator (null: the job itself), field, value."""

Transfer: TypeAlias = tuple[Name, Hash, Hash, Task, Task, Size]
"""Operator, first hash, end, from task, to task, bytes."""


class StepInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """What happens at one timestep boundary, in this order."""

    first: tuple[Assignment, ...]
    moves: tuple[Transfer, ...]
    last: tuple[Assignment, ...]


class AffectedInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """What happens to one operator."""

    operator: Name
    tasks: tuple[Task, ...]
    bins: NonNegativeInt
    bytes: Size
    placed: tuple[Task, ...] = ()
    carried_bytes: Size = 0.0


TaskRanges: TypeAlias = tuple[
    tuple[Task, Annotated[int, Meta(ge=1, le=MOST_TASKS)]],
    ...,
]
"""Tasks as ranges: first and end of each."""


class OperatorInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """The tasks of an operator, before and after the change."""

    operator: Name
    upstream: tuple[Name, ...]
    upstream_before: tuple[Name, ...] = ()
    unaffected: TaskRanges = ()
    kept: TaskRanges = ()
    replaced: TaskRanges = ()
    new: TaskRanges = ()
    gone: TaskRanges = ()
    state: tuple[tuple[Task, Task, NonNegativeInt, Size], ...] = ()


class TopologyInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """Which tasks are affected, and who sends state to whom."""

    operators: tuple[OperatorInPlan, ...]


class WayInPlan(msgspec.Struct, forbid_unknown_fields=True):
    """All of a plan but the change and the strategy."""

    format: NonNegativeInt
    steps: tuple[StepInPlan, ...]
    timesteps: NonNegativeInt
    cost_ms: Size
    affected: tuple[AffectedInPlan, ...] = ()
    advice: tuple[str, ...] = ()
    topology: TopologyInPlan | None = None


def checked_way(data: Mapping[str, Any]) -> WayInPlan:
    """The way in a plan, checked. Raises RefusedError naming the field that is wrong."""
    try:
        way = msgspec.convert(data, WayInPlan)
        for number, step in enumerate(way.steps):
            _check_assignments(step.first, f"steps[{number}].first")
            _check_assignments(step.last, f"steps[{number}].last")
        _check_topology(way.topology)
    except msgspec.ValidationError as error:
        words, _, where = str(error).replace("`", "").partition(" - at $")
        where = where.strip(".")
        reason = f"{where}: {words[:1].lower()}{words[1:]}" if where else words
        msg = f"not a valid plan: {reason}; write one with plan.save(path)"
        raise RefusedError(msg) from None
    return way


def _check_topology(topology: TopologyInPlan | None) -> None:
    """Check that ranges of tasks ascend. Raises msgspec.ValidationError."""
    for number, operator in enumerate(() if topology is None else topology.operators):
        for name in ("unaffected", "kept", "replaced", "new", "gone"):
            try:
                Tasks(getattr(operator, name))
            except ValueError as error:
                at = f" - at $.topology.operators[{number}].{name}"
                raise msgspec.ValidationError(f"{error}{at}") from None


def sets_program(way: WayInPlan) -> bool:
    """Whether a step sets what only another version of the dataflow sets."""
    return any(name in OF_PROGRAMS for s in way.steps for _, name, _ in (*s.first, *s.last))


def _check_assignments(assignments: Iterable[Assignment], where: str) -> None:
    """Check each value by the type of its field. Raises msgspec.ValidationError."""
    for number, (operator, name, value) in enumerate(assignments):
        known = OF_JOB if operator is None else OF_OPERATORS
        at = f" - at $.{where}[{number}]"
        type_ = known.get(name, OF_PROGRAMS.get(name))
        if type_ is None:
            msg = f"There is no field {name[:100]!r} that a step sets{at}"
            raise msgspec.ValidationError(msg)
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError as error:
            raise msgspec.ValidationError(f"{str(error).partition(' - at')[0]}{at}") from None
