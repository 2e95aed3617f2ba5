"""The last n values in the order of the stream, as a list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar import reductions
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import Mask, validity
from rechannel.operators.aggregate.functions.inputs import OrderedColumn, plain, plain_type
from rechannel.operators.aggregate.functions.lists import Ranges, list_column, side_by_side


@dataclass(frozen=True, slots=True, kw_only=True)
class LastN(OrderedColumn):
    """The last `n` values of a column, oldest first. Nulls count unless `ignore_nulls`."""

    n: int

    def __post_init__(self) -> None:
        """Check that something is asked for."""
        if self.n < 1:
            msg = f"last_n({self.column!r}) keeps at least one value, got n={self.n}"
            raise ValueError(msg)

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """The list. Takes every type."""
        item = pa.field("item", plain_type(inputs[0].type))
        return [pa.field("values", pa.list_(item), nullable=False)]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """A list, never null."""
        return self.state_fields(inputs)[0]

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """A list without elements."""
        (field,) = self.state_fields(inputs)
        return [pa.array([[]], field.type)]

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Return the last n values of each group, oldest first."""
        array = plain(values[0])
        lengths = groups.sizes
        valid = validity(array) if self.ignore_nulls else None
        if valid is not None:
            array, lengths = array.filter(pa.array(valid)), reductions.total(valid, groups)
        tails = Ranges(np.cumsum(lengths) - lengths, lengths).tail(self.n)
        kind = pa.list_(pa.field("item", array.type))
        return [list_column(kind, tails.lengths, tails.take(array))]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Tails of the lists of each group, one after the other."""
        tails = Ranges.of_lists(states[0]).joined(groups).tail(self.n)
        return [list_column(states[0].type, tails.lengths, tails.take(states[0].values))]

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Tails of old and new list together."""
        lengths, flat = side_by_side(old[0], new[0], found, self.n)
        return [list_column(new[0].type, lengths, flat)]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Return the state itself."""
        return states[0]
