"""Changes of the program as the journal and requests have them. With functions and streams in hand: `edits`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from msgspec import Meta

from rechannel.dataflow.identity.factories import shown, written
from rechannel.errors import RefusedError
from rechannel.model.codec import decode
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.reconfigure.changes.change import PROGRAM, Change, Cli
from rechannel.reconfigure.changes.operators import Operator
from rechannel.reconfigure.changes.registry import registered
from rechannel.reconfigure.checked import NonNegativeInt, PositiveInt
from rechannel.reconfigure.stream_facts import StreamFacts

__all__ = ["assign_logic"]


def _json(text: str) -> Any:
    """Read an object as JSON has it. Raises RefusedError."""
    try:
        return json.loads(text)
    except ValueError as error:
        msg = f"{text[:100]!r} is not JSON: {error}"
        raise RefusedError(msg) from error


@registered
@dataclass(frozen=True, slots=True)
class AssignLogic(Change):
    """Run another function, which the job loads by its import path."""

    kind = "assign_logic"
    switches_program = True

    operator: Operator
    function: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
            description="Import path of the function, as `module:name`.",
        ),
        Cli(argument=True, metavar="MODULE:NAME"),
    ]
    parameters: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Arguments by name; then the path names a factory, which returns the function. None = it is"
            " the function itself."
        ),
        Cli(metavar="JSON", help="Arguments of a factory, such as '{\"limit\": 5}'.", read=_json),
    ] = None

    def __post_init__(self) -> None:
        """Check the fields. Raises RefusedError, also for parameters that are too large."""
        Change.__post_init__(self)
        if self.parameters is not None:
            try:
                object.__setattr__(self, "parameters", written(self.parameters))
            except RefusedError as error:
                msg = f"{self.kind}: {error}"
                raise RefusedError(msg) from None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values. Without parameters there is no such field, as in earlier journals."""
        made = Change.to_json(self)
        return {
            name: value for name, value in made.items() if name != "parameters" or value is not None
        }

    def __str__(self) -> str:
        """As it is written in Python; of large parameters the size."""
        given = "" if self.parameters is None else f", parameters={shown(self.parameters)}"
        return f"{self.kind}(operator={self.operator!r}, function={self.function!r}{given})"

    def touches(self) -> frozenset[str]:
        """Programs are switched as a whole."""
        return frozenset({PROGRAM})

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """Refused: only a driver that loads the function can say what it leads to."""
        del configuration, facts
        msg = f"{self} needs the running job: pass it to job.reconfigure() or job.plan()"
        raise RefusedError(msg)

    @property
    def imports(self) -> tuple[str, ...]:
        """Return the import path of the function."""
        return (self.function,)


@registered
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProgram(Change):
    """Switch to another version of the dataflow. The engine makes it from the user's functions and streams."""

    kind = "change_program"
    requestable = False
    switches_program = True

    version: PositiveInt
    """Number of the new version."""

    base: PositiveInt | None = None
    """The version that it was made from; it takes over from no other."""

    text: str
    """What the user requested, in words."""

    operators: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Full configuration of each new operator."""

    removed: tuple[str, ...] = ()
    """Operators that are removed."""

    logic: dict[str, PositiveInt] = field(default_factory=dict)
    """Version of the new logic, by operator."""

    loaded: dict[str, NonNegativeInt] = field(default_factory=dict)
    """Rows of initial state that were loaded, by new operator."""

    undivided: dict[str, dict[str, str]] = field(default_factory=dict)
    """By operator that stays, and side (0 or 1): why the new version cannot deal out its rows, if the old one can."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; without `undivided`, if it is empty, as older versions write it."""
        data = Change.to_json(self)
        return data if self.undivided else {k: v for k, v in data.items() if k != "undivided"}

    def __str__(self) -> str:
        """What was requested."""
        return self.text

    def touches(self) -> frozenset[str]:
        """Programs are switched as a whole."""
        return frozenset({PROGRAM})

    def about(self) -> frozenset[str]:
        """The program, and every operator that is new, removed or runs other logic."""
        return frozenset({PROGRAM, *self.logic, *self.operators, *self.removed})

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The operators of the new version. Refused if another version took over meanwhile."""
        del facts
        if self.base is not None and self.base != configuration.dataflow:
            msg = (
                f"{self} was made from version {self.base} of the dataflow, and the present version is"
                f" {configuration.dataflow}: request it again"
            )
            raise RefusedError(msg)
        for name, reasons in self.undivided.items():
            self._check_spreads(name, reasons, configuration.operators.get(name))
        operators = {
            name: replace(operator, logic=self.logic.get(name, operator.logic))
            for name, operator in configuration.operators.items()
            if name not in self.removed
        }
        for name, given in self.operators.items():
            operators[name] = decode(OperatorConfiguration, given)
        return replace(configuration, operators=operators, dataflow=self.version)

    def _check_spreads(
        self, name: str, reasons: Mapping[str, str], operator: OperatorConfiguration | None
    ) -> None:
        """Raise RefusedError if tasks share rows that they cannot share in the new version."""
        routing = None if operator is None else operator.routing
        for spread in () if routing is None else routing.spreads:
            reason = reasons.get(str(spread.side))
            if reason is not None:
                msg = (
                    f"{self}: tasks {list(spread.tasks)} of operator {name!r} share the rows of a key, and then they"
                    f" cannot: {reason}. Gather them first, with gather({name!r})"
                )
                raise RefusedError(msg)

    @property
    def program_version(self) -> int | None:
        """The new version."""
        return self.version


assign_logic = AssignLogic
