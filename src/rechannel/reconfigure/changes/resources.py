"""Changes of where tasks run and of what they need there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration, Resources
from rechannel.reconfigure.changes.change import Change, Cli
from rechannel.reconfigure.changes.operators import Operator, operator_of, routed, with_fields
from rechannel.reconfigure.changes.registry import in_python, registered
from rechannel.reconfigure.checked import PositiveFloat
from rechannel.reconfigure.notation import amounts, mebibytes
from rechannel.reconfigure.stream_facts import StreamFacts

__all__ = ["assign_resources", "executors", "place"]


@registered
@dataclass(frozen=True, slots=True)
class Place(Change):
    """Run a task on an executor from now on."""

    kind = "place"

    operator: Operator
    task: Annotated[int, Meta(ge=0, description="Number of the task.")]
    executor: Annotated[
        str | None,
        Meta(description="Id of the executor in Spark; without one, Spark places the task freely."),
    ]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The task at that executor."""
        operator, _ = routed(configuration, self.operator)
        if self.task >= operator.tasks:
            msg = f"operator {self.operator!r} has tasks 0 to {operator.tasks - 1}, not {self.task}"
            raise RefusedError(msg)
        placement = {task: at for task, at in operator.placement.items() if task != self.task}
        if self.executor is not None:
            _check(facts.limits.refuses_place, self.executor, f"operator {self.operator!r}: ")
            placement[self.task] = self.executor
        return with_fields(configuration, self.operator, placement=placement)

    @property
    def names_executor(self) -> bool:
        """Unless it frees the task."""
        return self.executor is not None


@registered
@dataclass(frozen=True, slots=True)
class SetExecutors(Change):
    """Ask Spark for this many executors."""

    kind = "executors"

    executors: Annotated[
        int, Meta(ge=1, description="Number of executors."), Cli(argument=True, metavar="TOTAL")
    ]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The Configuration with that many."""
        _check(facts.limits.refuses_executors, self.executors, "")
        return replace(configuration, executors=self.executors)

    @property
    def executors_needed(self) -> int | None:
        """Return the number of executors that the change sets."""
        return self.executors


@registered
@dataclass(frozen=True, slots=True)
class AssignResources(Change):
    """Set what each task of an operator needs (stage-level scheduling), and so how many run at a time.

    An executor runs as many tasks at a time as it has CPUs for. Without an operator, it sets the needs of all operators
    that exist when the change is requested.
    """

    kind = "assign_resources"

    operator: Operator | None = None
    cpus: Annotated[int, Meta(ge=1, description="CPUs of an executor that each task occupies.")] = (
        field(default=1, kw_only=True)
    )
    memory_mb: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Memory of the executors, in MiB."),
        Cli(
            flag="--memory",
            metavar="SIZE",
            help="Memory of the executors, such as 4GiB.",
            read=mebibytes,
        ),
    ] = field(default=None, kw_only=True)
    amounts: Annotated[
        dict[str, PositiveFloat],
        Meta(description='Amounts of other resources, such as {"gpu": 0.5}.'),
        Cli(
            flag="--amount",
            metavar="NAME=AMOUNT",
            help="Amount of another resource, such as gpu=0.5. May be repeated.",
            read=amounts,
            many=True,
        ),
    ] = field(default_factory=dict, kw_only=True)

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """Return the Configuration in which the operator has these resources per task."""
        if self.operator is None:
            msg = "resources of all operators are resolved operator by operator: request them, or plan them"
            raise RefusedError(msg)
        operator_of(configuration, self.operator)
        needs = Resources(cpus=self.cpus, memory_mb=self.memory_mb, amounts=dict(self.amounts))
        _check(facts.limits.refuses_resources, needs, f"operator {self.operator!r}: ")
        usual = needs == Resources()
        return with_fields(configuration, self.operator, resources=None if usual else needs)

    def spelled_out(self, operators: Iterable[str]) -> Sequence[Change]:
        """Return one change per operator; the change itself if it names one."""
        if self.operator is not None:
            return (self,)
        return [replace(self, operator=name) for name in operators]


def _check(refuses: Callable[[Any], str | None], asked: Any, where: str) -> None:
    reason = refuses(asked)
    if reason is not None:
        raise RefusedError(f"{where}{reason}")


place = Place
executors = SetExecutors


@in_python
def assign_resources(
    operator: str | None = None,
    *,
    cpus: int = 1,
    memory_mb: int | None = None,
    amounts: Mapping[str, float] | None = None,
) -> AssignResources:
    """Set what each task of an operator, or of all operators, needs of its executor."""
    return AssignResources(operator, cpus=cpus, memory_mb=memory_mb, amounts=dict(amounts or {}))
