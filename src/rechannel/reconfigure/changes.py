"""What can be changed, as values: JSON in, JSON out, checked when they are made.

The three primitives are Trisk's (SoCC'21, section 3): assign logic, assign workload, assign resources.
Everything else is named after what a user wants and is composed of them by `resolve`.

    primitive            composed
    assign_workload      rescale, rebalance, move, split, merge, rewrite
    assign_logic         change_logic, change_dataflow
    assign_resources     place, executors
    (plan choices)       set_interval, set_in_flight, set_bound, combine

A list of changes is one change: accepted whole or not at all, and made step by step as its strategy wants. All at once,
all of it holds from one timestep on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.reconfigure.numbers import NonNegativeInt, PositiveFloat, PositiveInt, Real, Whole

JOB = "*job"
"""What a change touches that is no operator's own: the interval, bounds, executors."""

PROGRAM = "*program"
"""What a change of the dataflow itself touches: everything."""

MOST_COMPLAINTS = 20
"""That a person would read."""

Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Value(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_enum_values=False, allow_inf_nan=False
    )

    def touches(self) -> frozenset[str]:
        """Operators (or JOB, PROGRAM) whose configuration it sets."""
        return frozenset({getattr(self, "operator", None) or JOB})

    def __str__(self) -> str:
        """As it would be written in Python."""
        fields = self.model_dump(mode="json", exclude={"kind"}, exclude_none=True)
        return f"{getattr(self, 'kind', '?')}({', '.join(f'{k}={v!r}' for k, v in fields.items())})"


class AssignWorkload(_Value):
    """Place the bins of an operator exactly so. starts: first hash of every bin; owners: its task."""

    kind: Literal["assign_workload"] = "assign_workload"
    operator: Name
    starts: tuple[NonNegativeInt, ...]
    owners: tuple[NonNegativeInt, ...]
    tasks: PositiveInt

    def __str__(self) -> str:
        """How many bins and tasks; not every one of them."""
        what = f"{len(self.starts)} bins at {self.tasks} tasks"
        return f"assign_workload(operator={self.operator!r}, {what})"


class AssignResources(_Value):
    """What every task needs. cpus: of an executor; memory_mb; amounts: of other resources.

    operator: None = of all operators that there are when it is asked for.
    """

    kind: Literal["assign_resources"] = "assign_resources"
    operator: Name | None = None
    cpus: PositiveInt = 1
    memory_mb: PositiveInt | None = None
    amounts: dict[str, PositiveFloat] = {}


class AssignLogic(_Value):
    """Run another function. function: import path "module:name" that the driver can load."""

    kind: Literal["assign_logic"] = "assign_logic"
    operator: Name
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]

    def touches(self) -> frozenset[str]:
        """Programs are exchanged as a whole."""
        return frozenset({PROGRAM})


class Rescale(_Value):
    """So many tasks, each with its share of the bins; as few bins move as balance allows."""

    kind: Literal["rescale"] = "rescale"
    operator: Name
    tasks: PositiveInt


class Rebalance(_Value):
    """Spread the measured load of the bins over the tasks, moving as little as needed.

    tolerance: how far the busiest task may be above the mean before anything moves.
    """

    kind: Literal["rebalance"] = "rebalance"
    operator: Name
    tolerance: Annotated[Real, Field(ge=0, le=10)] = 0.1


class Move(_Value):
    """Place bins (by number) at a task."""

    kind: Literal["move"] = "move"
    operator: Name
    bins: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
    task: NonNegativeInt


class Split(_Value):
    """Cut one bin into several of equal width. A single hot key cannot be split: combine answers that."""

    kind: Literal["split"] = "split"
    operator: Name
    bin: NonNegativeInt
    into: Annotated[Whole, Field(ge=2, le=65536)] = 2


class Merge(_Value):
    """Make neighbouring bins one, at the task of the first of them."""

    kind: Literal["merge"] = "merge"
    operator: Name
    bins: Annotated[tuple[NonNegativeInt, ...], Field(min_length=2)]


class Rewrite(_Value):
    """Write the state of an operator anew, bin by bin: one run per bin, in its present columns."""

    kind: Literal["rewrite"] = "rewrite"
    operator: Name


class Place(_Value):
    """Run a task on an executor from now on. executor: its id, as Spark's pages show it; None frees the task."""

    kind: Literal["place"] = "place"
    operator: Name
    task: NonNegativeInt
    executor: str | None


class SetCombine(_Value):
    """Pre-aggregate what an operator receives: on, off, or auto (by the measured reduction)."""

    kind: Literal["combine"] = "combine"
    operator: Name
    mode: Combine


class SetInterval(_Value):
    """Distance between timestep starts in milliseconds; 0 = as soon as possible."""

    kind: Literal["set_interval"] = "set_interval"
    interval_ms: Annotated[Whole, Field(ge=0, le=86_400_000)]


class SetInFlight(_Value):
    """How many timesteps may be under way at once."""

    kind: Literal["set_in_flight"] = "set_in_flight"
    timesteps: Annotated[Whole, Field(ge=1, le=64)]


class SetBound(_Value):
    """What a timestep takes of a source at most.

    most: rows (files, for a source of files); None = the source's own bound. bytes: about so many bytes; None = its
    share of what the settings say.
    """

    kind: Literal["set_bound"] = "set_bound"
    source: Name
    most: PositiveInt | None
    bytes: PositiveInt | None = None


class SetExecutors(_Value):
    """Ask Spark for this many executors."""

    kind: Literal["executors"] = "executors"
    executors: PositiveInt


class ChangeProgram(_Value):
    """Another version of the dataflow. The engine makes this value from the user's functions and streams.

    text: what the user asked for, in words. operators: full configuration of operators that are new.
    removed: operators that go. logic: operator -> version of its new logic. loaded: rows of initial state that were
    loaded for operators that are new. base: the version that this one was made from; it takes over from no other.
    """

    kind: Literal["change_program"] = "change_program"
    version: PositiveInt
    base: PositiveInt | None = None
    text: str
    operators: dict[str, dict[str, Any]] = {}
    removed: tuple[str, ...] = ()
    logic: dict[str, PositiveInt] = {}
    loaded: dict[str, NonNegativeInt] = {}

    def touches(self) -> frozenset[str]:
        """Programs are exchanged as a whole."""
        return frozenset({PROGRAM})

    def __str__(self) -> str:
        """What was asked for."""
        return self.text


class Together(_Value):
    """Several changes that are accepted together, or not at all; all at once, they hold from one timestep on."""

    kind: Literal["together"] = "together"
    changes: Annotated[tuple[Change, ...], Field(min_length=1)]

    def touches(self) -> frozenset[str]:
        """What any of them touches."""
        return frozenset().union(*(change.touches() for change in self.changes))

    @model_validator(mode="after")
    def _flat(self) -> Together:
        if any(isinstance(change, Together) for change in self.changes):
            msg = "lists of changes do not nest"
            raise ValueError(msg)
        return self

    def __str__(self) -> str:
        """One behind the other."""
        return ", ".join(map(str, self.changes))


def spelled_out(change: Change, operators: Iterable[str]) -> Change:
    """With a change of every operator in the place of one of them all."""
    parts = parts_of(change)
    if not any(isinstance(part, AssignResources) and part.operator is None for part in parts):
        return change
    made: list[Any] = []
    for part in parts:
        of_all = isinstance(part, AssignResources) and part.operator is None
        made += [part.model_copy(update={"operator": o}) for o in operators] if of_all else [part]
    return one_change(made)


Change: TypeAlias = Annotated[
    AssignWorkload
    | AssignResources
    | AssignLogic
    | Rescale
    | Rebalance
    | Move
    | Split
    | Merge
    | Rewrite
    | Place
    | SetCombine
    | SetInterval
    | SetInFlight
    | SetBound
    | SetExecutors
    | ChangeProgram
    | Together,
    Field(discriminator="kind"),
]

Together.model_rebuild()
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Change)


def to_json(change: Change) -> dict[str, Any]:
    """Plain JSON values."""
    data: dict[str, Any] = change.model_dump(mode="json")
    return data


def from_json(data: Mapping[str, Any]) -> Change:
    """Invert `to_json`. Raises RefusedError naming the field that is wrong."""
    change: Change = read_as(_ADAPTER, data, "change")
    return change


def read_as(adapter: TypeAdapter[Any], data: Mapping[str, Any], what: str) -> Any:
    """A value from JSON. what: the word for it. Raises RefusedError naming the field that is wrong."""
    try:
        return adapter.validate_python(dict(data))
    except ValidationError as error:
        raise RefusedError(f"this is no {what}: {complaints(error)}") from error


def complaints(error: ValidationError) -> str:
    """What is wrong, field by field, in one line; where that is very much, how much."""
    if error.error_count() > MOST_COMPLAINTS:
        return f"{error.error_count()} values are wrong"
    return "; ".join(
        f"{'.'.join(str(part) for part in one['loc']) or 'value'}: {one['msg']}"
        for one in error.errors(include_url=False)
    )


def is_change(value: object) -> bool:
    """Whether something is a change, and not one's class or function."""
    return isinstance(value, _Value)


def one_change(changes: Change | Sequence[Change]) -> Change:
    """A list as one change. Raises RefusedError when it is empty, or holds what is no change."""
    if isinstance(changes, _Value):
        return changes
    given = changes if isinstance(changes, list | tuple) else ()
    if not given or not all(isinstance(change, _Value) for change in given):
        msg = f"a change or a list of changes is wanted, as rc.changes.rescale('counts', tasks=8), not {changes!r}"
        raise RefusedError(msg)
    flat = [part for change in given for part in parts_of(change)]
    return flat[0] if len(flat) == 1 else Together(changes=tuple(flat))


def parts_of(change: Change) -> tuple[Change, ...]:
    """The changes of a list; a change that is none, alone."""
    return change.changes if isinstance(change, Together) else (change,)
