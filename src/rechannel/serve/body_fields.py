"""Changes, strategies and plans in request bodies: read by their own registries, shown in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from rechannel.errors import RefusedError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.registry import requested
from rechannel.reconfigure.changes.together import parts_of
from rechannel.reconfigure.plan import Plan
from rechannel.reconfigure.planfile import checked_way, sets_program
from rechannel.reconfigure.strategies import Strategy


def _read(read: Callable[[Any], Any], name: str) -> tuple[PlainValidator, WithJsonSchema]:
    """How a field of a body is read, and the name of its schema."""

    def field(given: Any) -> Any:
        try:
            return read(given)
        except RefusedError as error:
            kind = "refused"
            raise PydanticCustomError(kind, "{said}", {"said": str(error)}) from None

    return PlainValidator(field), WithJsonSchema({"$ref": f"#/components/schemas/{name}"})


def _plan(data: Any) -> Plan:
    """Read what POST /plan answers. It never switches the program."""
    plan = Plan.from_json(data)
    rest = {name: value for name, value in data.items() if name not in {"change", "strategy"}}
    if sets_program(checked_way(rest)):
        msg = "steps that switch the program are not replayed"
        raise RefusedError(msg)
    return plan


OneChange: TypeAlias = Annotated[Change, *_read(requested, "Change")]
"""Every registered change that can be requested from outside."""

OneStrategy: TypeAlias = Annotated[Strategy, *_read(strategies.KINDS.read, "Strategy")]
"""Every registered strategy."""

PlanFile: TypeAlias = Annotated[Plan, *_read(_plan, "Plan")]
"""A plan as POST /plan answers it."""


def check_replayable(plan: Plan) -> None:
    """Raise RefusedError for a plan whose change switches the program."""
    if any(part.switches_program for part in parts_of(plan.change)):
        msg = "a plan that switches the program is not replayed over HTTP: request its change"
        raise RefusedError(msg)
