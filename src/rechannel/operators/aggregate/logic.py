"""The stateful operator `aggregate`: named aggregate functions over keyed rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rechannel.errors import DataflowError, DuplicateNameError, TimestepError, UnknownColumnError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.overflow import does_not_fit, singles
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.capabilities import Combining, Revising, Succeeded
from rechannel.kernels.protocol.logic import (
    AggregateFunction,
    HidesType,
    Invertible,
    OperatorInput,
    OperatorOutput,
)
from rechannel.model.buffers import Mask
from rechannel.model.hashing import hash_columns
from rechannel.operators.aggregate.running_totals import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One aggregate with the place of its columns: positions among the values and in the state.

    name: of the output column. fields: of its input columns. state: its columns of the state.
    """

    name: str
    function: AggregateFunction
    fields: tuple[pa.Field, ...]
    values: tuple[int, ...]
    state: slice

    def output(self) -> pa.Field:
        """Output field under the aggregate's own name."""
        return self.function.output_field(list(self.fields)).with_name(self.name)

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Partial states from the operator's value columns."""
        return self.function.partial([values[i] for i in self.values], groups)

    def final(self, state: Columns) -> pa.Array:
        """Finished values from the operator's state columns."""
        return self.function.final(state[self.state], list(self.fields))


class KeepsAggregates(ABC):
    """An operator whose state is that of aggregates, which say themselves what becomes of it when they change."""

    @property
    @abstractmethod
    def kept_aggregates(self) -> AggregateLogic | None:
        """The aggregates; None where it keeps something else in their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateLogic(Combining, Succeeded, Revising, KeepsAggregates):
    """Aggregates bound to the schema of their input: a `StatefulLogic`. Make one with `bind`.

    State columns are named `<output>.<part>`. Rows travel combined unless an aggregate is ordered.
    """

    key_schema: pa.Schema
    value_schema: pa.Schema
    state_schema: pa.Schema
    output_schema: pa.Schema
    aggregates: tuple[Bound, ...]

    keeps_rows: ClassVar[bool] = False
    """A window has the state of aggregates, not its rows and their places in the stream."""

    @classmethod
    def bind(
        cls, keys: Sequence[str], aggregates: Mapping[str, AggregateFunction], schema: pa.Schema
    ) -> AggregateLogic:
        """Bind aggregates, by the name of their output column, to rows of a schema.

        Raises DataflowError (or a subclass) for no keys or aggregates, names that occur twice,
        unknown columns and columns of types that a key or an aggregate cannot take.
        """
        key_schema = _key_schema(keys, schema)
        _check_names(keys, aggregates)
        inputs = {column: None for function in aggregates.values() for column in function.inputs}
        value_schema = pa.schema([_find(schema, column, "an aggregate") for column in inputs])
        bound, state_fields = _bind_all(aggregates, value_schema)
        outputs = [aggregate.output() for aggregate in bound]
        return cls(
            key_schema=key_schema,
            value_schema=value_schema,
            state_schema=pa.schema(state_fields),
            output_schema=pa.schema([*key_schema, *outputs]),
            aggregates=bound,
        )

    @property
    def hidden_types(self) -> dict[str, str]:
        """Return, by aggregate, the type of its input where its state depends on it and does not show it."""
        return {
            one.name: one.function.of_type(list(one.fields))
            for one in self.aggregates
            if isinstance(one.function, HidesType)
        }

    @property
    def state_kind(self) -> str:
        """Return the kind: the same for all aggregates, so that one can be replaced by another."""
        return "aggregate"

    @property
    def kept_aggregates(self) -> AggregateLogic:
        """All the state there is."""
        return self

    @property
    def table_key(self) -> int:
        """The keys."""
        return len(self.key_schema)

    @property
    def ordered(self) -> bool:
        """Whether an aggregate needs the rows of a key in stream order."""
        return any(aggregate.function.ordered for aggregate in self.aggregates)

    @property
    def combinable(self) -> bool:
        """Whether rows may be combined before the exchange: when no aggregate is ordered."""
        return not self.ordered

    @property
    def parts(self) -> tuple[Part, ...] | None:
        """The aggregates, where states can be taken out of all of them again."""
        parts = [
            Part(function=one.function, columns=one.state)
            for one in self.aggregates
            if isinstance(one.function, Invertible)
        ]
        return tuple(parts) if len(parts) == len(self.aggregates) else None

    @property
    def combined_schema(self) -> pa.Schema:
        """State columns."""
        return self.state_schema

    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Partial states of raw rows, one row per group."""
        return [part for one in self.aggregates for part in one.partial(values, groups)]

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Merge what arrived into the state; emit every arriving key with its finished values."""
        state = self.merged(arrivals)
        return OperatorOutput(
            state=state,
            dropped=None,
            output=self.finish(arrivals.keys, state),
            output_hashes=arrivals.hashes,
        )

    def merged(self, arrivals: OperatorInput) -> Columns:
        """State of every key with what arrived. Raises TimestepError where it does not fit."""
        try:
            return self._merged_in_parts(arrivals)
        except TimestepError as error:
            if not does_not_fit(error):
                raise
            return self._merged_at_once(arrivals)

    def _merged_in_parts(self, arrivals: OperatorInput) -> Columns:
        """What arrived first, then with what was there."""
        if arrivals.combined:
            state = self.merged_states(arrivals.values, arrivals.groups)
        else:
            state = self.combine(arrivals.values, arrivals.groups)
        if arrivals.found.any():
            state = self.merged_pairs(arrivals.old, state, arrivals.found)
        return state

    def _merged_at_once(self, arrivals: OperatorInput) -> Columns:
        """All states of a key together, the old one first, every row that arrived as one of them."""
        states, groups = arrivals.values, arrivals.groups
        if not arrivals.combined:
            states = self.combine(states, singles(groups.rows))
        known = np.flatnonzero(arrivals.found)
        order = np.argsort(np.concatenate([known, groups.ids]), kind="stable")
        width = len(self.state_schema)
        pairs = zip(take(arrivals.old[:width], known), states[:width], strict=True)
        sizes = groups.sizes + arrivals.found
        whole = Groups(np.cumsum(sizes) - sizes, len(order))
        return self.merged_states(take([pa.concat_arrays(pair) for pair in pairs], order), whole)

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys and finished values of state rows."""
        outputs = [aggregate.final(state) for aggregate in self.aggregates]
        return pa.RecordBatch.from_arrays([*keys, *outputs], schema=self.output_schema)

    def merged_states(self, states: Columns, groups: Groups) -> Columns:
        """One state per group."""
        if groups.count == groups.rows:
            return states
        merged: Columns = []
        for one in self.aggregates:
            merged += one.function.merge(states[one.state], groups)
        return merged

    def merged_pairs(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Element by element: old states, where found, with those of later rows."""
        merged: Columns = []
        for one in self.aggregates:
            merged += one.function.merge_pair(old[one.state], new[one.state], found)
        return merged


def _bind_all(
    aggregates: Mapping[str, AggregateFunction], value_schema: pa.Schema
) -> tuple[tuple[Bound, ...], list[pa.Field]]:
    bound: list[Bound] = []
    state: list[pa.Field] = []
    for name, function in aggregates.items():
        fields = tuple(value_schema.field(column) for column in function.inputs)
        parts = function.state_fields(list(fields))
        place = slice(len(state), len(state) + len(parts))
        state += [part.with_name(f"{name}.{part.name}") for part in parts]
        positions = tuple(value_schema.get_field_index(column) for column in function.inputs)
        bound.append(
            Bound(name=name, function=function, fields=fields, values=positions, state=place)
        )
    return tuple(bound), state


def _key_schema(keys: Sequence[str], schema: pa.Schema) -> pa.Schema:
    if not keys:
        msg = "an aggregate needs at least one key column: call key_by first"
        raise DataflowError(msg)
    fields = [_find(schema, name, "the key") for name in keys]
    for field in fields:
        try:
            _check_hashable(field.type)
        except DataflowError as error:
            msg = f"key column {field.name!r}: {error}"
            raise DataflowError(msg) from error
    return pa.schema(fields)


@lru_cache(maxsize=1024)  # every task of every timestep asks again
def _check_hashable(kind: pa.DataType) -> None:
    """Raises DataflowError where values of a type cannot be keys."""
    hash_columns([pa.array([], kind)])


def _check_names(keys: Sequence[str], aggregates: Mapping[str, AggregateFunction]) -> None:
    if not aggregates:
        msg = "name at least one aggregate, e.g. aggregate(n=count())"
        raise DataflowError(msg)
    repeated = [name for i, name in enumerate(keys) if name in keys[:i]]
    repeated += [name for name in aggregates if name in keys]
    if repeated:
        msg = f"{repeated[0]!r} names two columns of the result; give one of them another name"
        raise DuplicateNameError(msg)


def _find(schema: pa.Schema, column: str, user: str) -> pa.Field:
    places = schema.get_all_field_indices(column)
    if len(places) == 1:
        return schema.field(places[0])
    if places:
        msg = f"the stream has {len(places)} columns {column!r}; rename them before {user} uses one"
        raise DuplicateNameError(msg)
    known = ", ".join(schema.names)
    msg = f"{user} names column {column!r}, which the stream does not have; it has {known}"
    raise UnknownColumnError(msg)
