"""A plan that comes from outside: what POST /plan answers, and nothing else. It never exchanges the program."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from rechannel.errors import RefusedError
from rechannel.reconfigure.changes import AssignLogic, ChangeProgram, Together, parts_of
from rechannel.reconfigure.plan import FORMAT, Plan
from rechannel.reconfigure.planfile import OF_PROGRAMS, WayInPlan
from rechannel.reconfigure.strategies import Strategy
from rechannel.serve.outside import OneChange


class PlanFile(WayInPlan):
    """A plan as POST /plan answers it."""

    format: Annotated[int, Field(ge=1, le=FORMAT)]
    change: Annotated[OneChange | Together, Field(discriminator="kind")]
    strategy: Strategy

    @model_validator(mode="after")
    def _no_program(self) -> PlanFile:
        assigned = {field for step in self.steps for _, field, _ in (*step.first, *step.last)}
        if assigned & OF_PROGRAMS:
            msg = "steps that exchange the program are not replayed"
            raise ValueError(msg)
        return self

    def plan(self) -> Plan:
        """The plan. Raises RefusedError for one that exchanges the program."""
        if any(isinstance(part, AssignLogic | ChangeProgram) for part in parts_of(self.change)):
            msg = "a plan that exchanges the program is not replayed over HTTP: ask for its change"
            raise RefusedError(msg)
        data: dict[str, Any] = self.model_dump(mode="json")
        return Plan.from_json(data)
