"""`aggregate` and `running_reduce` as values: what they compute, before columns are known. See `operators.spec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.aggregate.reduce import ReduceLogic
from rechannel.operators.checks import need_callable, need_columns, split_keys
from rechannel.operators.spec import OperatorSpec


def named_aggregates(
    columns: object, aggregates: Mapping[str, AggregateFunction]
) -> dict[str, AggregateFunction]:
    """Aggregates that a user gave, by name. Raises DataflowError for one without a name."""
    if columns is not None and not isinstance(columns, Mapping):
        msg = f"an aggregate needs a name, as in aggregate(n=count()), not aggregate({_short(columns)})"
        raise DataflowError(msg)
    return {**(columns or {}), **aggregates}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__}(...)"


@dataclass(frozen=True, eq=False, kw_only=True)
class AggregateSpec(OperatorSpec):
    """Named aggregates of the rows of a key."""

    aggregates: Mapping[str, AggregateFunction]

    def __post_init__(self) -> None:
        """Check that there are aggregates, and that they are."""
        object.__setattr__(self, "aggregates", dict(self.aggregates))
        if not self.aggregates:
            msg = "aggregate needs at least one aggregate, as in aggregate(n=count(), mean=mean('price'))"
            raise DataflowError(msg)
        for name, function in self.aggregates.items():
            if not isinstance(function, AggregateFunction):
                msg = f"{name}={function!r} is not an aggregate; use count(), sum('price'), ..."
                raise DataflowError(msg)

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "aggregates by name"

    def with_columns(
        self, columns: Mapping[str, AggregateFunction], *, keyed: bool
    ) -> AggregateSpec:
        """Other aggregates; `succession` says what becomes of their state."""
        del keyed
        return AggregateSpec(aggregates=columns)

    @property
    def one_row_per_key(self) -> bool:
        """Return True: the aggregates of the key."""
        return True

    @property
    def unchanging(self) -> None:
        """Return None: the row of a key changes with its rows."""

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "aggregate"

    @property
    def ordered(self) -> bool:
        """Whether an aggregate goes by the order of rows."""
        return any(function.ordered for function in self.aggregates.values())

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name, function in self.aggregates.items():
            if name in keys:
                msg = f"aggregate {name!r} has the name of a key column; choose another name"
                raise DataflowError(msg)
            need_columns(f"aggregate {name!r}", function.inputs, schema)
        return AggregateLogic.bind(list(keys), dict(self.aggregates), schema)

    def inner(self, keys: tuple[str, ...], schema: pa.Schema, time: str | None) -> AggregateLogic:
        """What is kept of the rows of a window. time: column of event times. Raises DataflowError."""
        del time
        self.bind(keys, schema)
        return AggregateLogic.bind(list(keys), dict(self.aggregates), schema)

    def need_orderless(self, windows: str, inner: AggregateLogic | ReduceLogic) -> None:
        """Raise DataflowError where an aggregate goes by the order of rows."""
        if inner.ordered:
            names = [name for name, function in self.aggregates.items() if function.ordered]
            msg = (
                f"aggregates {names} go by the order of rows, which {windows} do not keep: their parts are merged by"
                " event time; use min, max or track"
            )
            raise DataflowError(msg)

    def by_name(self, what: str) -> AggregateSpec:
        """Return the aggregates, all of which have names. what: the operator that needs them."""
        del what
        return self

    def fingerprint(self) -> str:
        """Names and parameters of the aggregates, in order."""
        parts = (f"{name}={function!r}" for name, function in self.aggregates.items())
        return f"aggregate({', '.join(parts)})"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReduceSpec(OperatorSpec):
    """All rows of a key so far, combined two by two. See `reduce`."""

    function: Callable[[Any, Any], Any]
    """(earlier, later) -> combined; associative."""
    rowwise: bool = False
    """The function takes two rows, not two record batches."""

    def __post_init__(self) -> None:
        """Check that it can be called."""
        need_callable(self.function, "running_reduce", "(earlier, later) -> combined")

    @property
    def user_function(self) -> Callable[..., Any]:
        """What is called with two rows of a key."""
        return self.function

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Another function understands the same state."""
        return replace(self, function=function)

    @property
    def one_row_per_key(self) -> bool:
        """Return True: the aggregates of the key."""
        return True

    @property
    def unchanging(self) -> None:
        """Return None: the row of a key changes with its rows."""

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "reduce"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check that there is something to combine. Raises DataflowError."""
        key_schema, values = split_keys(keys, schema)
        return ReduceLogic(
            key_schema=key_schema,
            value_schema=values,
            function=self.function,
            rowwise=self.rowwise,
        )

    def fingerprint(self) -> str:
        """The state is the stream's own columns."""
        return "reduce()"
