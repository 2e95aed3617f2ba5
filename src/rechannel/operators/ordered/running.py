"""`running`: every row of a key with columns that follow from the rows up to it, in the order of the stream.

State: one row per key, of the aggregates that the functions keep (`running_functions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.bases import EveryRow
from rechannel.kernels.protocol.capabilities import Viewed
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.operators.aggregate.logic import AggregateLogic, KeepsAggregates
from rechannel.operators.ordered.running_functions import RunningFunction


@dataclass(frozen=True, eq=False, kw_only=True)
class RunningLogic(EveryRow, Viewed, KeepsAggregates):
    """Rows with functions of their order: a `StatefulLogic`."""

    inner: AggregateLogic
    """What the functions keep, under their names."""
    row_schema: pa.Schema
    """Columns of the stream."""
    functions: tuple[RunningFunction, ...]
    """One for each aggregate of `inner`."""

    @property
    def kept_aggregates(self) -> AggregateLogic:
        """What is kept of the rows."""
        return self.inner

    @property
    def key_schema(self) -> pa.Schema:
        """Key columns."""
        return self.inner.key_schema

    @cached_property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys."""
        return pa.schema([f for f in self.row_schema if f.name not in self.key_schema.names])

    @property
    def state_schema(self) -> pa.Schema:
        """Return the state columns of the aggregates."""
        return self.inner.state_schema

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, the other columns, one column per function."""
        made = [
            function.output_field(list(one.fields)).with_name(one.name)
            for function, one in zip(self.functions, self.inner.aggregates, strict=True)
        ]
        return pa.schema([*self.key_schema, *self.value_schema, *made])

    @property
    def view_schema(self) -> pa.Schema:
        """Keys, and what is kept: last values and aggregates."""
        return self.inner.output_schema

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Emit every row, and keep the state after the last one of each key."""
        groups = arrivals.groups
        keys = take(arrivals.keys, groups.ids)
        known = dict(zip(self.key_schema.names, keys, strict=True))
        known |= dict(zip(self.value_schema.names, arrivals.values, strict=True))
        shown: Columns = []
        state: Columns = []
        for function, one in zip(self.functions, self.inner.aggregates, strict=True):
            values = [known[field.name] for field in one.fields]
            made, kept = function.over(
                list(one.fields), values, groups, arrivals.old[one.state], arrivals.found
            )
            shown.append(made)
            state += kept
        output = pa.RecordBatch.from_arrays(
            [*keys, *arrivals.values, *shown], schema=self.output_schema
        )
        return OperatorOutput(
            state=state, dropped=None, output=output, output_hashes=arrivals.hashes[groups.ids]
        )

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys, and what is kept of them."""
        return self.inner.finish(keys, state)
