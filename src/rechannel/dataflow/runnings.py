"""`running`: every row of a key with functions of the rows up to it, in the order of the stream or of event time.

In the order of event time it is two operators, and so are windows of rows: one that holds rows until the watermark has
passed them, called `<name>.order`, and behind it one that goes by the order in which they leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.dataflow.graph import Node, Stateful
from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.rules import need_columns
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.two_sides import ROW
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.ordered.event_time_sort import EventTimeSortLogic
from rechannel.operators.ordered.running import RunningLogic
from rechannel.operators.ordered.running_functions import RunningFunction

ORDER = ".order"
"""Ends the name of the operator that holds rows."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunningSpec(OperatorSpec):
    """Named functions of the order of a key's rows. See `kernels.running`. on: column of event times; None = the
    stream's order.
    """

    functions: Mapping[str, RunningFunction]
    on: str | None = None

    def __post_init__(self) -> None:
        """Check that there are functions, and that they are."""
        object.__setattr__(self, "functions", dict(self.functions))
        if not self.functions:
            msg = "running needs at least one function, as in running(before=lag('price'))"
            raise DataflowError(msg)
        for name, function in self.functions.items():
            if callable(getattr(function, "over", None)):
                continue
            hint = "use lag, difference or cumulative"
            if callable(getattr(function, "state_fields", None)):
                hint = f"it is an aggregate: say cumulative({function!r})"
            msg = f"running: {name}={function!r} is no function of the order of rows; {hint}"
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
        """One word."""
        return "running"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name, function in self.functions.items():
            if name in schema.names:
                msg = f"running: there is a column {name!r} already; name the new one otherwise"
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


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrangeSpec(OperatorSpec):
    """Rows of a key in the order of event time. See `kernels.arrange`. on: column of event times."""

    on: str

    @property
    def needs_time(self) -> bool:
        """Rows wait until event time has passed them."""
        return True

    @property
    def kind(self) -> str:
        """One word."""
        return "order"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        need_time(self.on, schema)
        if ROW.name in schema.names:
            msg = f"running: column {ROW.name!r} has the name of a column of the state; rename it"
            raise DataflowError(msg)
        key_schema = pa.schema([schema.field(key) for key in keys])
        return EventTimeSortLogic(keys=key_schema, row_schema=schema, on=self.on)

    def fingerprint(self) -> str:
        """The state is the stream's own columns."""
        return f"order({self.fixed})"

    @property
    def fixed(self) -> str:
        """What rows wait for."""
        return f"by {self.on}"


def arranged(on: str, name: str) -> tuple[ArrangeSpec, str]:
    """The operator that sorts rows by event time before one that goes by their order, and its name.

    name: of the operator that goes by the order.
    """
    return ArrangeSpec(on=on), f"{name}{ORDER}"


def judge_of(node: Node) -> Node:
    """The operator that tells which rows come too late for a node."""
    return node.upstream if isinstance(node, Stateful) and node.spec.sorted_before else node
