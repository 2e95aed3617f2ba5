"""`running_reduce`: the state of a key is all its rows so far, combined two by two.

The user's function is associative: it may be applied in any bracketing, so long as the order stays.
Vectorised, neighbours are paired
and combined in rounds, all groups at once: log2(largest group) calls, and every row is touched a
constant number of times, because a group that is down to one row leaves. Row by row, a plain left
fold gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.errors import DataflowError, UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.functions.python_rows import (
    check_tuples,
    columns_of,
    fitted,
    python_keys,
    python_rows,
    row_type,
)
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.kernels.protocol.capabilities import Combining, Revising, Succeeded
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.model.buffers import IntArray
from rechannel.model.ddl import type_name


@dataclass(frozen=True, eq=False, kw_only=True)
class ReduceLogic(Combining, Succeeded, Revising):
    """A running reduction over the value columns."""

    key_schema: pa.Schema
    value_schema: pa.Schema
    function: Callable[[Any, Any], Any]
    """(earlier batch, later batch) -> batch, row by row; or, with `rowwise`, (earlier row, later row) -> tuple."""
    rowwise: bool = False
    """The function takes rows, not batches."""

    def __post_init__(self) -> None:
        """Check that there is something to combine."""
        if len(self.value_schema) == 0:
            msg = "running_reduce combines the columns that are not keys, and there are none"
            raise DataflowError(msg)

    @property
    def state_kind(self) -> str:
        """Rows that a function combined."""
        return "running_reduce"

    @property
    def state_schema(self) -> pa.Schema:
        """The value columns."""
        return self.value_schema

    @property
    def output_schema(self) -> pa.Schema:
        """Keys and value columns."""
        return pa.schema([*self.key_schema, *self.value_schema])

    @property
    def table_key(self) -> int:
        """The keys."""
        return len(self.key_schema)

    @property
    def ordered(self) -> bool:
        """Associative does not mean commutative."""
        return True

    @property
    def combined_schema(self) -> pa.Schema:
        """The value columns."""
        return self.value_schema

    def combine(self, values: Columns, groups: Groups) -> Columns:
        """The user's function is associative: each group's rows as one row."""
        return self._fold(values, groups, None)

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Combine each key's old state with its rows. Raises UserFunctionError."""
        new = self._fold(arrivals.values, arrivals.groups, arrivals.keys)
        state = self.joined(arrivals.old, new, arrivals)
        return OperatorOutput(
            state=state,
            dropped=None,
            output=self.finish(arrivals.keys, state),
            output_hashes=arrivals.hashes,
        )

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return keys and their state as one batch."""
        return pa.RecordBatch.from_arrays([*keys, *state], schema=self.output_schema)

    def _fold(self, values: Columns, groups: Groups, keys: Columns | None) -> Columns:
        if groups.count == groups.rows:
            return values
        if self.rowwise:
            return self._fold_rows(values, groups, keys)
        return self._fold_batches(values, groups)

    def joined(self, old: Columns, new: Columns, arrivals: OperatorInput) -> Columns:
        """Old state and new rows of the same keys, combined where there is old state."""
        met = np.flatnonzero(arrivals.found)
        if len(met) == 0:
            return new
        everywhere = len(met) == len(arrivals.found)
        rows = pa.array(met)
        before = old if everywhere else [column.take(rows) for column in old]
        after = new if everywhere else [column.take(rows) for column in new]
        if self.rowwise:
            pairs = Groups(np.arange(0, 2 * len(met), 2, dtype=np.int64), 2 * len(met))
            zipped = _interleave(before, after)
            joined = self._fold_rows(zipped, pairs, [key.take(rows) for key in arrivals.keys])
        else:
            joined = self.pairwise(before, after)
        return joined if everywhere else _replace_rows(new, met, joined)

    def _fold_batches(self, values: Columns, groups: Groups) -> Columns:
        done: list[Columns] = []
        owners: list[IntArray] = []
        sizes, ids = groups.sizes, np.arange(groups.count, dtype=np.int64)
        while len(ids):
            starts = np.cumsum(sizes) - sizes
            single = sizes == 1
            if single.any():
                done.append(_take(values, starts[single]))
                owners.append(ids[single])
                keep = np.repeat(~single, sizes)
                values = _take(values, np.flatnonzero(keep))
                sizes, ids = sizes[~single], ids[~single]
                continue
            values, sizes = self._halve(values, sizes, starts), (sizes + 1) // 2
        order = np.argsort(np.concatenate(owners), kind="stable")
        return _take([pa.concat_arrays(pieces) for pieces in zip(*done, strict=True)], order)

    def _halve(self, values: Columns, sizes: IntArray, starts: IntArray) -> Columns:
        """Combine rows 0 and 1, 2 and 3, ... of every group; an odd last row stays unchanged."""
        rows = int(sizes.sum())
        position = np.arange(rows) - np.repeat(starts, sizes)
        left = np.flatnonzero(position % 2 == 0)
        paired = position[left] + 1 < np.repeat(sizes, (sizes + 1) // 2)
        first, alone = left[paired], left[~paired]
        joined = self.pairwise(_take(values, first), _take(values, first + 1))
        if len(alone) == 0:
            return joined
        place = np.empty(len(left), dtype=np.int64)
        place[paired] = np.arange(len(first))
        place[~paired] = len(first) + np.arange(len(alone))
        rest = _take(values, alone)
        both = [pa.concat_arrays(pair) for pair in zip(joined, rest, strict=True)]
        return _take(both, place)

    def pairwise(self, earlier: Columns, later: Columns) -> Columns:
        """The function of rows that belong together, by their place. Raises UserFunctionError."""
        name = function_name(self.function)
        a = pa.RecordBatch.from_arrays(earlier, schema=self.value_schema)
        b = pa.RecordBatch.from_arrays(later, schema=self.value_schema)
        try:
            answer = self.function(a, b)
        except Exception as error:
            raise user_error(f"{name} for {a.num_rows} pairs of rows", error) from error
        return self._checked(answer, a.num_rows, name)

    def _checked(self, answer: Any, rows: int, name: str) -> Columns:
        if not isinstance(answer, pa.RecordBatch) or answer.num_rows != rows:
            got = (
                f"{answer.num_rows} rows"
                if isinstance(answer, pa.RecordBatch)
                else f"a {type(answer).__name__}"
            )
            msg = f"{name} must answer a RecordBatch of {rows} rows, one per pair; it gave {got}"
            raise UserFunctionError(msg)
        columns = []
        for field in self.value_schema:
            if answer.schema.names.count(field.name) != 1:
                msg = f"{name} must answer the columns {', '.join(self.value_schema.names)}; "
                raise UserFunctionError(f"{msg}it gave {', '.join(answer.schema.names)}")
            column = answer.column(field.name)
            try:
                columns.append(fitted(column, field.type))
            except pa.ArrowException as error:
                msg = (
                    f"{name}: column {field.name!r} must stay {type_name(field.type)}, "
                    f"{type_name(column.type)} does not fit: {error}"
                )
                raise UserFunctionError(msg) from error
        return columns

    def _fold_rows(self, values: Columns, groups: Groups, keys: Columns | None) -> Columns:
        step = self._stepper()
        rows = python_rows(values, tuple(self.value_schema.names), groups.rows)
        results: list[Any] = []
        try:
            for start, end in zip(groups.starts.tolist(), groups.ends.tolist(), strict=True):
                results.append(reduce(step, rows[start:end]))
        except Exception as error:
            raise user_error(self._what(keys, groups, len(results)), error) from error
        return columns_of(
            results, self.value_schema, lambda row: f"the answer of {self._what(keys, groups, row)}"
        )

    def _stepper(self) -> Callable[[Any, Any], Any]:
        """The user's function, its answer checked and made a NamedTuple again."""
        function, fields, width = self.function, self.value_schema, len(self.value_schema)
        make = row_type(tuple(fields.names))._make

        def step(earlier: Any, later: Any) -> Any:
            answer = function(earlier, later)
            if not isinstance(answer, tuple | list) or len(answer) != width:
                check_tuples([answer], fields, lambda _: f"the answer of {function_name(function)}")
            return make(answer)

        return step

    def _what(self, keys: Columns | None, groups: Groups, group: int) -> str:
        name = function_name(self.function)
        if keys is None:
            return f"{name} for {groups.sizes[group]} rows of one key"
        key = python_keys(
            [column.slice(group, 1) for column in keys], self.key_schema.names, 1, {}
        )[0]
        return f"{name} for key {key!r}"


def _take(columns: Columns, rows: IntArray) -> Columns:
    index = pa.array(rows)
    return [column.take(index) for column in columns]


def _interleave(before: Columns, after: Columns) -> Columns:
    """Rows b0, a0, b1, a1, ..."""
    rows = len(before[0])
    order = np.arange(2 * rows).reshape(2, rows).T.ravel()
    return _take([pa.concat_arrays(p) for p in zip(before, after, strict=True)], order)


def _replace_rows(columns: Columns, rows: IntArray, by: Columns) -> Columns:
    """Columns in which the given rows are others."""
    count = len(columns[0])
    place = np.arange(count)
    place[rows] = count + np.arange(len(rows))
    return _take([pa.concat_arrays(p) for p in zip(columns, by, strict=True)], place)
