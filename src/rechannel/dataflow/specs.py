"""What the keyed operators compute, as values; bound to columns they become executable logic.

A fingerprint names what stored state depends on and nothing else: a function may be replaced under
a running stream, the columns of its state may not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.rules import need_columns
from rechannel.dataflow.timeouts import Timeouts
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import MayDivide
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.model.ddl import columns_text
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.aggregate.reduce import ReduceLogic
from rechannel.operators.process.deduplicate import TIMESTEP, UNTIL, DeduplicateLogic
from rechannel.operators.process.track import (
    Initialise,
    TrackBatchesLogic,
    TrackLogic,
    Update,
    UpdateBatches,
)
from rechannel.operators.window.reduce import WindowReduceLogic


def split_keys(keys: tuple[str, ...], schema: pa.Schema) -> tuple[pa.Schema, pa.Schema]:
    """Key columns, in the order of the keys, and all others."""
    others = [field for field in schema if field.name not in keys]
    return pa.schema([schema.field(key) for key in keys]), pa.schema(others)


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
            msg = "aggregate needs at least one, as in aggregate(n=count(), mean=mean('price'))"
            raise DataflowError(msg)
        for name, function in self.aggregates.items():
            if not callable(getattr(function, "state_fields", None)):
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
    def kind(self) -> str:
        """One word."""
        return "aggregate"

    @property
    def ordered(self) -> bool:
        """Whether an aggregate goes by the order of rows."""
        return any(function.ordered for function in self.aggregates.values())

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name, function in self.aggregates.items():
            if name in keys:
                msg = f"aggregate {name!r} has the name of a key column; name it otherwise"
                raise DataflowError(msg)
            need_columns(f"aggregate {name!r}", function.inputs, schema)
        return AggregateLogic.bind(list(keys), dict(self.aggregates), schema)

    def inner(self, keys: tuple[str, ...], schema: pa.Schema, time: str | None) -> AggregateLogic:
        """What is kept of the rows of a window. time: column of event times. Raises DataflowError."""
        del time
        self.bind(keys, schema)
        return AggregateLogic.bind(list(keys), dict(self.aggregates), schema)

    def need_orderless(self, windows: str, inner: AggregateLogic | WindowReduceLogic) -> None:
        """Raise DataflowError where an aggregate goes by the order of rows."""
        if inner.ordered:
            names = [name for name, function in self.aggregates.items() if function.ordered]
            msg = (
                f"aggregates {names} go by the order of rows, which {windows} do not keep: their parts are merged by"
                " event time; use min, max or track"
            )
            raise DataflowError(msg)

    def fingerprint(self) -> str:
        """Names and parameters of the aggregates, in order."""
        parts = (f"{name}={function!r}" for name, function in self.aggregates.items())
        return f"aggregate({', '.join(parts)})"


@dataclass(frozen=True, eq=False, kw_only=True)
class DeduplicateSpec(OperatorSpec):
    """The first row of every key. See `kernels.deduplicate`."""

    within_us: int | None = None
    on: str | None = None

    @property
    def needs_time(self) -> bool:
        """Keys that are forgotten are so by event time."""
        return self.within_us is not None

    @property
    def kind(self) -> str:
        """One word."""
        return "deduplicate"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        key_schema, _ = split_keys(keys, schema)
        for reserved in (TIMESTEP, UNTIL):
            if reserved.name in keys:
                msg = f"key {reserved.name!r} has the name of a column of the state; rename it"
                raise DataflowError(msg)
        if self.on is not None:
            need_time(self.on, schema)
        return DeduplicateLogic(
            key_schema=key_schema, row_schema=schema, within_us=self.within_us, on=self.on
        )

    def fingerprint(self) -> str:
        """Whether keys are forgotten."""
        return f"deduplicate({'for ever' if self.within_us is None else 'within'})"

    @property
    def fixed(self) -> int | None:
        """How long keys are remembered: what has been forgotten cannot come back."""
        return self.within_us


@dataclass(frozen=True, eq=False, kw_only=True)
class ReduceSpec(OperatorSpec):
    """All rows of a key so far, combined two by two."""

    function: Callable[[Any, Any], Any]
    rowwise: bool = False

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
    def kind(self) -> str:
        """One word."""
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


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackSpec(Timeouts, MayDivide):
    """State that a function of one key keeps. state: its columns."""

    update: Update
    state: pa.Schema
    initialise: Initialise | None = None

    def __post_init__(self) -> None:
        """Check that the functions can be called."""
        need_callable(self.update, "track", "(key, state, rows) -> state")
        if self.initialise is not None:
            need_callable(self.initialise, "init_state of track", "(key, first row) -> state")
        if self.expired is not None:
            need_callable(self.expired, "expired of track", "(key, state) -> state to show")

    @property
    def user_function(self) -> Callable[..., Any]:
        """What is called with the rows."""
        return self.update

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Another function understands the same state."""
        return replace(self, update=function)

    @property
    def kind(self) -> str:
        """One word."""
        return "track"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and state. Raises DataflowError."""
        key_schema, values = split_keys(keys, schema)
        return TrackLogic(
            key_schema=key_schema,
            value_schema=values,
            fields=self.state,
            timeout_ms=self.timeout_ms,
            timer=self.timer(schema),
            update=self.update,
            initialise=self.initialise,
            expired=self.expired,
            on_error=self.on_error,
        )

    def fingerprint(self) -> str:
        """Columns of the state, and whether time is kept."""
        return self.described(columns_text(self.state))


@dataclass(frozen=True, eq=False, kw_only=True)
class TrackBatchesSpec(Timeouts, MayDivide):
    """State that a function of all changed keys of a task keeps. state: its columns."""

    update: UpdateBatches
    state: pa.Schema

    def __post_init__(self) -> None:
        """Check that the function can be called."""
        need_callable(self.update, "track_batches", "(frame) -> state columns")
        if self.expired is not None:
            need_callable(self.expired, "expired of track_batches", "(frame) -> state columns")

    @property
    def user_function(self) -> Callable[..., Any]:
        """What is called with the rows."""
        return self.update

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Another function understands the same state."""
        return replace(self, update=function)

    @property
    def kind(self) -> str:
        """One word."""
        return "track"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check names of keys and state. Raises DataflowError."""
        key_schema, values = split_keys(keys, schema)
        return TrackBatchesLogic(
            key_schema=key_schema,
            value_schema=values,
            fields=self.state,
            timeout_ms=self.timeout_ms,
            timer=self.timer(schema),
            update=self.update,
            expired=self.expired,
            on_error=self.on_error,
        )

    def fingerprint(self) -> str:
        """As of one function per key: both flavours understand each other's state."""
        return self.described(columns_text(self.state))


def need_callable(function: object, operator: str, shape: str) -> None:
    """Raise DataflowError that tells the shape where a function is none."""
    if not callable(function):
        msg = f"{operator} needs a function {shape}, not {type(function).__name__}"
        raise DataflowError(msg)
