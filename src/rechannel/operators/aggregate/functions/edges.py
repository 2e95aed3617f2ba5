"""First and last value in the order of the stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, validity
from rechannel.operators.aggregate.functions.inputs import (
    OrderedColumn,
    choose,
    one_null,
    plain,
    plain_type,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class First(OrderedColumn):
    """Value in the key's first row; with `ignore_nulls`, the first value that is not null."""

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """The value. Takes every type."""
        return [pa.field("first", plain_type(inputs[0].type))]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """The column's own type."""
        return self.state_fields(inputs)[0]

    def empty(self, inputs: list[pa.Field]) -> Columns | None:
        """Null where nulls are skipped; else null is a first value like any other."""
        return self.partial(*one_null(inputs)) if self.ignore_nulls else None

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """First value of each group."""
        array = plain(values[0])
        valid = validity(array) if self.ignore_nulls else None
        if valid is None:
            return [_rows(array, groups.starts)]
        present = np.flatnonzero(valid)
        at = np.searchsorted(present, groups.starts)
        rows = np.append(present, groups.rows)[at]
        return [_rows(array, rows, rows < groups.ends)]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Return the first value of each group of states."""
        return self.partial(states, groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Return the old value where there is one, else the new one."""
        valid = validity(old[0]) if self.ignore_nulls else None
        return [choose(found if valid is None else found & valid, old[0], new[0])]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Return the state itself."""
        return states[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Last(OrderedColumn):
    """Value in the key's last row; with `ignore_nulls`, the last value that is not null."""

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """The value. Takes every type."""
        return [pa.field("last", plain_type(inputs[0].type))]

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """The column's own type."""
        return self.state_fields(inputs)[0]

    def empty(self, inputs: list[pa.Field]) -> Columns:
        """Null: any later row takes its place."""
        return self.partial(*one_null(inputs))

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Last value of each group."""
        array = plain(values[0])
        valid = validity(array) if self.ignore_nulls else None
        if valid is None:
            return [_rows(array, groups.ends - 1)]
        present = np.flatnonzero(valid)
        at = np.searchsorted(present, groups.ends)  # one past the last candidate
        rows = np.append(np.full(1, -1), present)[at]
        return [_rows(array, rows, rows >= groups.starts)]

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Return the last value of each group of states."""
        return self.partial(states, groups)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """The new one, unless it is null and nulls are ignored."""
        valid = validity(new[0]) if self.ignore_nulls else None
        return new if valid is None else [choose(found & ~valid, old[0], new[0])]

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Return the state itself."""
        return states[0]


def _rows(array: pa.Array, rows: IntArray, present: Mask | None = None) -> pa.Array:
    """Values of some rows; null where there is no such row."""
    if present is None:
        return array if len(rows) == len(array) else array.take(pa.array(rows))
    return array.take(pa.array(rows, mask=~present))
