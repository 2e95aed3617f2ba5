"""What the resolution of several changes needs: operators by name, their bins, their fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.routing import Routing
from rechannel.reconfigure.changes.change import Cli

MOST_TASKS = 100_000
"""Tasks that an operator can have."""

MOST_BINS = 1 << 20
"""Bins that an operator can have."""

Operator: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=200, description="Name of the operator."),
    Cli(argument=True),
]


def operator_of(configuration: Configuration, name: str) -> OperatorConfiguration:
    """An operator's configuration. Raises UnknownOperatorError with the names of all operators."""
    found = configuration.operators.get(name)
    if found is None:
        there = ", ".join(map(repr, sorted(configuration.operators)))
        msg = f"there is no operator {name!r}; there are {there}"
        raise UnknownOperatorError(msg)
    return found


def routed(configuration: Configuration, name: str) -> tuple[OperatorConfiguration, Routing]:
    """An operator's configuration and its bins. Raises RefusedError if it has none."""
    operator = operator_of(configuration, name)
    if operator.routing is None:
        keyed = sorted(n for n, o in configuration.operators.items() if o.routing is not None)
        msg = f"operator {name!r} keeps no state, so it has no bins; operators with bins: {keyed}"
        raise RefusedError(msg)
    return operator, operator.routing


def with_fields(configuration: Configuration, name: str, **fields: Any) -> Configuration:
    """The Configuration with other fields of one operator."""
    changed = replace(configuration.operators[name], **fields)
    return replace(configuration, operators={**configuration.operators, name: changed})


def kept_places(operator: OperatorConfiguration, tasks: int) -> Mapping[int, str]:
    """The placement of the tasks that remain."""
    return {task: where for task, where in operator.placement.items() if task < tasks}


def check_bins(name: str, routing: Routing, bins: Sequence[int]) -> None:
    """Raise RefusedError for bins that the operator does not have."""
    beyond = [number for number in bins if number >= routing.bins]
    if beyond:
        msg = f"operator {name!r} has bins 0 to {routing.bins - 1}, not {beyond}"
        raise RefusedError(msg)


def check_spreads(
    name: str, routing: Routing, *, bins: Sequence[int] = (), tasks: int | None = None
) -> None:
    """Raise RefusedError if one of the bins is spread, or a spread bin has tasks that `tasks` tasks do not have."""
    for spread in routing.spreads:
        number = routing.bin_of(spread.lo)
        if number in bins or (tasks is not None and max(spread.tasks) >= tasks):
            msg = (
                f"operator {name!r}: tasks {list(spread.tasks)} share bin {number}; gather it first, with"
                f" gather({name!r}, bin={number})"
            )
            raise RefusedError(msg)
