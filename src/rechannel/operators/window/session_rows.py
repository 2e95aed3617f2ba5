"""Sessions whose rows are kept, for what goes by all of them in the order of the stream.

A session still is one state row; its columns are lists, one element per row of the session, and one list more says
where each row stood in the stream. Sessions that become one have their lists put together, and what is made of them
sorts them by that. So a session is written again, with all its rows, whenever rows come to it: what no list is needed
for (aggregates that do not go by order, `reduce`) keeps none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import nested_order, take
from rechannel.model.buffers import IntArray
from rechannel.operators.aggregate.functions.lists import Ranges, list_column
from rechannel.operators.aggregate.logic import AggregateLogic

NUMBERS = "_rows"


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptRows:
    """What a session keeps: its rows. value_schema: their columns. key_schema: the user's keys."""

    key_schema: pa.Schema
    value_schema: pa.Schema

    ordered: ClassVar[bool] = True
    kept_aggregates: ClassVar[None] = None
    """There are none: whatever is made of the rows is made when they are emitted."""
    keeps_rows: ClassVar[bool] = True

    @cached_property
    def state_schema(self) -> pa.Schema:
        """A list per column, and one of the places of the rows in the stream."""
        columns = [
            pa.field(f"{NUMBERS}.{f.name}", pa.list_(f.type), False) for f in self.value_schema
        ]
        return pa.schema([*columns, pa.field(NUMBERS, pa.list_(pa.int64()), False)])

    @property
    def output_schema(self) -> pa.Schema:
        """Keys, and a list per column."""
        return pa.schema(
            [*self.key_schema, *(f.with_type(pa.list_(f.type)) for f in self.value_schema)]
        )

    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Rows of every group as lists. values: also the places of the rows, last."""
        kinds = zip(self.state_schema.types, values, strict=True)
        return [list_column(kind, groups.sizes, column) for kind, column in kinds]

    def merged_states(self, states: Columns, groups: Groups) -> Columns:
        """Lists of every group as one."""
        if groups.count == groups.rows:
            return states
        ranges = [Ranges.of_lists(column) for column in states]
        return [
            list_column(
                column.type, np.add.reduceat(each.lengths, groups.starts), each.take(column.values)
            )
            for column, each in zip(states, ranges, strict=True)
        ]

    def rows(self, state: Columns) -> tuple[Columns, IntArray]:
        """Rows of sessions, in the order of the stream within each, and how many each has."""
        ranges = [Ranges.of_lists(column) for column in state]
        *columns, places = (
            each.take(column.values) for column, each in zip(state, ranges, strict=True)
        )
        sizes = ranges[-1].lengths
        owners = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
        order = nested_order(owners, places.to_numpy(zero_copy_only=False))
        return take(columns, order), sizes

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys, and rows as lists."""
        columns, sizes = self.rows(state)
        kinds = self.output_schema.types[len(keys) :]
        lists = [list_column(kind, sizes, c) for kind, c in zip(kinds, columns, strict=True)]
        return pa.RecordBatch.from_arrays([*keys, *lists], schema=self.output_schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class AggregatedRows(KeptRows):
    """Rows that are kept until aggregates are made of them. aggregates: over the user's keys."""

    aggregates: AggregateLogic

    @classmethod
    def of(cls, aggregates: AggregateLogic) -> AggregatedRows:
        """What aggregates read is kept."""
        return cls(
            key_schema=aggregates.key_schema,
            value_schema=aggregates.value_schema,
            aggregates=aggregates,
        )

    @property
    def output_schema(self) -> pa.Schema:
        """Return keys and the columns of the aggregates."""
        return self.aggregates.output_schema

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys and finished aggregates."""
        columns, sizes = self.rows(state)
        groups = Groups(starts=np.cumsum(sizes) - sizes, rows=int(sizes.sum()))
        return self.aggregates.finish(keys, self.aggregates.combine(columns, groups))
