"""Changes of the number of tasks, and of the whole placement of bins. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.model.routing import Routing
from rechannel.reconfigure.balance import evened, rescaled
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.operators import (
    MOST_BINS,
    MOST_TASKS,
    Operator,
    check_spreads,
    kept_places,
    operator_of,
    routed,
    with_fields,
)
from rechannel.reconfigure.changes.registry import in_python, registered
from rechannel.reconfigure.checked import NonNegativeInt
from rechannel.reconfigure.stream_facts import StreamFacts

__all__ = ["assign_workload", "rescale"]


@registered
@dataclass(frozen=True, slots=True)
class Rescale(Change):
    """Run an operator, also one without state, with another number of tasks; as few bins move as balance allows.

    With the present number of tasks, it evens out what moves, a rebalancing or an aborted change left uneven
    (`job.plan` shows what would move); an even placement does not change.
    """

    kind = "rescale"

    operator: Operator
    tasks: Annotated[int, Meta(ge=1, description="Number of tasks.")]

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The bins over that many tasks."""
        del facts
        operator = operator_of(configuration, self.operator)
        if self.tasks > MOST_TASKS:
            msg = (
                f"operator {self.operator!r}: {self.tasks} tasks are too many; at most {MOST_TASKS}"
            )
            raise RefusedError(msg)
        placement = kept_places(operator, self.tasks)
        if operator.routing is None:
            return with_fields(configuration, self.operator, tasks=self.tasks, placement=placement)
        if self.tasks == operator.tasks:
            return with_fields(configuration, self.operator, routing=evened(operator.routing))
        check_spreads(self.operator, operator.routing, tasks=self.tasks)
        if self.tasks > operator.routing.bins:
            msg = (
                f"operator {self.operator!r} has {operator.routing.bins} bins, which is the most tasks"
                f" it can have, not {self.tasks}; split bins first"
            )
            raise RefusedError(msg)
        routing = rescaled(operator.routing, self.tasks)
        return with_fields(
            configuration, self.operator, tasks=self.tasks, routing=routing, placement=placement
        )


@registered
@dataclass(frozen=True, slots=True)
class AssignWorkload(Change):
    """Place all bins of an operator exactly as given. Spread bins have to stay unchanged."""

    kind = "assign_workload"

    operator: Operator
    starts: Annotated[
        tuple[NonNegativeInt, ...], Meta(description="First hash of each bin, ascending from 0.")
    ]
    owners: Annotated[tuple[NonNegativeInt, ...], Meta(description="Task of each bin.")]
    tasks: Annotated[int, Meta(ge=1, description="Number of tasks.")]

    def __str__(self) -> str:
        """How many bins and tasks, without listing them."""
        what = f"{len(self.starts)} bins at {self.tasks} tasks"
        return f"assign_workload(operator={self.operator!r}, {what})"

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """Return the Configuration with exactly these bins and owners."""
        del facts
        operator, before = routed(configuration, self.operator)
        if self.tasks > MOST_TASKS or len(self.starts) > MOST_BINS:
            msg = (
                f"operator {self.operator!r}: {len(self.starts)} bins at {self.tasks} tasks are too many;"
                f" at most {MOST_BINS} bins at {MOST_TASKS} tasks"
            )
            raise RefusedError(msg)
        try:
            routing = Routing(starts=self.starts, owners=self.owners, tasks=self.tasks)
        except ValueError as error:
            raise RefusedError(f"operator {self.operator!r}: {error}") from error
        try:
            routing = routing.with_spreads(before.spreads)
        except ValueError as error:
            msg = f"operator {self.operator!r}: {error}; gather it first, with gather({self.operator!r})"
            raise RefusedError(msg) from error
        return with_fields(
            configuration,
            self.operator,
            tasks=self.tasks,
            routing=routing,
            placement=kept_places(operator, self.tasks),
        )


rescale = Rescale


@in_python
def assign_workload(operator: str, routing: Routing) -> AssignWorkload:
    """Place all bins of an operator exactly as in `routing` (`job.configuration.operators[name].routing` is one)."""
    return AssignWorkload(operator, routing.starts, routing.owners, routing.tasks)
