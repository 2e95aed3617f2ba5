"""Which operators can share the rows of one key among several tasks, and why others cannot. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.engine.program.physical import PhysicalPlan, Stage
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.program import Branch, Consumer
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT, Sided
from rechannel.kernels.shuffle.send import plain_key
from rechannel.model.configuration import Configuration
from rechannel.model.hashing import hash_columns

MOST_CHARACTERS = 60
"""Of a value of a key that messages show."""


@dataclass(frozen=True, kw_only=True)
class DivisibleOperator:
    """How several tasks of an operator can share the rows of one key: a `Divisible`."""

    operator: str
    can: Capabilities
    dependent: str | None
    """An operator downstream whose result depends on the order in which rows of one key are emitted; None = none."""

    def undivided(self, side: int) -> str | None:
        """Return why rows of a side cannot be dealt out; None = they can."""
        reason = self.can.undivided(side)
        if reason is None and self.dependent is not None:
            reason = (
                f"operator {self.dependent!r} goes by the order of the rows that it receives, which has to be the same"
                " wherever they come from"
            )
        return reason

    def hash_of(self, key: Sequence[Any]) -> int:
        """Return the hash of a key. Raises RefusedError for one that does not fit the key columns."""
        fields = list(self.can.logic.key_schema)[: self.can.hashed]
        names = [field.name for field in fields]
        if len(key) != len(fields):
            msg = (
                f"operator {self.operator!r}: a key has the columns {names}, not {len(key)} values"
            )
            raise RefusedError(msg)
        columns = []
        for field, value in zip(fields, key, strict=True):
            try:
                columns.append(plain_key(_column(value, field.type)))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                shown = repr(value)[:MOST_CHARACTERS]
                msg = (
                    f"operator {self.operator!r}: {shown} is no value of key column {field.name!r}"
                    f" ({field.type}): {str(error)[:200]}"
                )
                raise RefusedError(msg) from error
        return int(hash_columns(columns)[0])


def _column(value: Any, type_: pa.DataType) -> pa.Array:
    """Return a value as a column of one row. Text is read as the type; a number has to be one of the type."""
    if value is None:
        return pa.nulls(1, type_)
    if isinstance(value, str | float):
        return pa.array([value]).cast(type_)
    return pa.array([value], type_)


def divisible_operators(plan: PhysicalPlan) -> Mapping[str, DivisibleOperator]:
    """Return how the rows of a key can be shared, by operator with state."""
    return {
        stage.name: DivisibleOperator(
            operator=stage.name, can=stage.can, dependent=_dependent(plan, stage)
        )
        for stage in plan.stages
        if stage.can is not None
    }


def no_longer_divisible(old: PhysicalPlan, new: PhysicalPlan) -> dict[str, dict[str, str]]:
    """Return why rows that the old version can deal out the new one cannot, by operator and side."""
    before, after = divisible_operators(old), divisible_operators(new)
    reasons = {
        name: {
            str(side): reason
            for side in (LEFT, RIGHT)
            if before[name].undivided(side) is None
            and (reason := after[name].undivided(side)) is not None
        }
        for name in before.keys() & after.keys()
    }
    return {name: why for name, why in sorted(reasons.items()) if why}


def check_spreads(plan: PhysicalPlan, configuration: Configuration) -> None:
    """Raise RefusedError if tasks share rows of a key that a plan cannot deal out."""
    able = divisible_operators(plan)
    for name, operator in configuration.operators.items():
        routing = operator.routing if name in able else None
        for spread in () if routing is None else routing.spreads:
            reason = able[name].undivided(spread.side)
            if reason is not None:
                msg = (
                    f"tasks {list(spread.tasks)} of operator {name!r} share the rows of a key, and with this text they"
                    f" cannot: {reason}. Start the job with its former text, gather them with gather({name!r}), and"
                    " start it with this text then"
                )
                raise RefusedError(msg)


def _dependent(plan: PhysicalPlan, stage: Stage) -> str | None:
    """Return the first operator downstream whose result depends on the order of an operator's rows."""
    if stage.can is None or stage.can.spreadable is None:
        return None
    found, waiting = {stage.name}, [stage]
    while waiting:
        here = waiting.pop(0)
        after = [other.name for other in plan.stages if here.name in other.after]
        for consumer, side in _consumers(here.root):
            if consumer.can.depends_on_order(side):
                return consumer.operator
            if consumer.can.logic.ordered:
                after.append(consumer.operator)  # its own rows then come in another order, too
        for name in after:
            if name not in found:
                found.add(name)
                waiting.append(plan.stage(name))
    return None


def _consumers(branch: Branch, side: int = LEFT) -> Iterator[tuple[Consumer, int]]:
    """Yield the operators that receive rows of a branch, and as rows of which of their sides."""
    if isinstance(branch.function, Sided):
        side = branch.function.side
    for consumer in branch.consumers:
        yield consumer, side
    for below in branch.branches:
        yield from _consumers(below, side)


def sides_of_inputs(plan: PhysicalPlan) -> Mapping[tuple[str, int], int]:
    """Return the side of every input of the operators with two sides, by (operator, input)."""
    return {
        (consumer.operator, consumer.input): side
        for stage in plan.stages
        for consumer, side in _consumers(stage.root)
        if consumer.can.spreadable is not None
    }


def rows_of_sides(
    sent: Mapping[tuple[str, int], int], sides: Mapping[tuple[str, int], int]
) -> dict[str, tuple[float, float]]:
    """Return rows by operator, (left, right). sent: rows by (operator, input)."""
    out: dict[str, list[float]] = {}
    for place, rows in sent.items():
        if place in sides:
            out.setdefault(place[0], [0.0, 0.0])[sides[place]] += rows
    return {name: (found[LEFT], found[RIGHT]) for name, found in out.items()}
