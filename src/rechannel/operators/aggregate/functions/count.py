"""Count of rows, or of the rows in which a column is not null."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar import reductions
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, column, numbers, validity
from rechannel.operators.aggregate.functions.running_sums import running_sums

COUNT = pa.field("count", pa.int64(), nullable=False)
"""State field of a count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Number of rows of a key; with a column, of the rows where it is not null."""

    column: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The column, if one was named."""
        return () if self.column is None else (self.column,)

    @property
    def ordered(self) -> bool:
        """A count does not depend on order."""
        return False

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """One int64. Takes every type."""
        return [COUNT]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """An int64, never null."""
        return COUNT

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """Return a count of 0."""
        return [pa.array([0], pa.int64())]

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Counts of raw rows."""
        return [column(pa.int64(), count_rows(values[0] if values else None, groups))]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Sums of counts."""
        return [column(pa.int64(), reductions.total(numbers(states[0]), groups))]

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Counts added."""
        return [column(pa.int64(), add_counts(old[0], new[0], found))]

    def tally(self, states: Columns) -> Columns:
        """Return no columns: counts can be subtracted without tallies."""
        return []

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Sums of counts."""
        return self.merge(totals, groups)

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, None]:
        """Return the differences; no row has to be merged anew."""
        return [less_counts(totals[0], others[0])], None

    def running_states(
        self, values: Columns, groups: Groups, before: Columns, known: Mask
    ) -> Columns:
        """Return the count after each row."""
        there = validity(values[0]) if values else None
        came = np.ones(groups.rows, np.int64) if there is None else there.astype(np.int64)
        counts, _ = running_sums(came, groups, np.where(known, numbers(before[0]), 0))
        return [column(pa.int64(), counts)]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Return the state itself."""
        return states[0]


def count_rows(values: pa.Array | None, groups: Groups) -> IntArray:
    """Rows of each group, without those where `values` is null."""
    if values is not None and pa.types.is_dictionary(values.type):
        values = values.dictionary.take(values.indices)
    valid = None if values is None else validity(values)
    return groups.sizes if valid is None else reductions.total(valid, groups)


def add_counts(old: pa.Array, new: pa.Array, found: Mask) -> IntArray:
    """New counts plus the old ones where found."""
    before = numbers(old) if found.all() else numbers(old) * found
    out: IntArray = np.add(numbers(new), before, dtype=np.int64)
    return out


def less_counts(counts: pa.Array, others: pa.Array) -> pa.Array:
    """Subtract other counts from counts, pair by pair."""
    return column(pa.int64(), np.subtract(numbers(counts), numbers(others), dtype=np.int64))
