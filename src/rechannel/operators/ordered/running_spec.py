"""`running` as a value: named functions of the order of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.checks import need_columns
from rechannel.operators.ordered.running import RunningLogic
from rechannel.operators.ordered.running_functions import RunningFunction
from rechannel.operators.spec import OperatorSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class RunningSpec(OperatorSpec):
    """Named functions of the order of a key's rows. See `running`."""

    functions: Mapping[str, RunningFunction]
    on: str | None = None
    """Column of event times that gives the order; None = the order of the stream."""

    def __post_init__(self) -> None:
        """Check that there are functions, and that they are."""
        object.__setattr__(self, "functions", dict(self.functions))
        if not self.functions:
            msg = "running needs at least one function, as in running(before=lag('price'))"
            raise DataflowError(msg)
        for name, function in self.functions.items():
            if isinstance(function, RunningFunction):
                continue
            hint = "use lag, difference or cumulative"
            if isinstance(function, AggregateFunction):
                hint = f"it is an aggregate: use cumulative({function!r})"
            msg = f"running: {name}={function!r} is not a function of the order of rows; {hint}"
            raise DataflowError(msg)

    @property
    def sorted_before(self) -> bool:
        """In the order of event time, another operator sorts the rows."""
        return self.on is not None

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "functions of the order of rows by name"

    def with_columns(self, columns: Mapping[str, RunningFunction], *, keyed: bool) -> RunningSpec:
        """Other functions of the same order."""
        del keyed
        return replace(self, functions=columns)

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "running"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name, function in self.functions.items():
            if name in schema.names:
                msg = f"running: the input has a column {name!r} already; choose another name for the new one"
                raise DataflowError(msg)
            need_columns(f"running {name!r}", function.keeps.inputs, schema)
        kept = {name: function.keeps for name, function in self.functions.items()}
        logic = RunningLogic(
            inner=AggregateLogic.bind(list(keys), kept, schema),
            row_schema=schema,
            functions=tuple(self.functions.values()),
        )
        _ = logic.output_schema  # raises for types that a function cannot take
        return logic

    def fingerprint(self) -> str:
        """What the functions keep, in order, and the order of rows."""
        parts = (f"{name}={function.keeps!r}" for name, function in self.functions.items())
        return f"running({', '.join(parts)}; {self.fixed})"

    @property
    def fixed(self) -> str:
        """Whose order it is: the rows before are not there to be put into another one."""
        return "by the stream" if self.on is None else f"by {self.on}"
