"""Windows of rows: every `every` rows of a key, aggregates of its last `size` rows, in the order of the stream.

Rows of a key are numbered as they come and kept in panes of gcd(size, every) rows, so every window is whole panes.
Window w is made of rows w * every to w * every + size - 1, and shown in the timestep that brings the last of them.

State: a row per pane that a window to come is made of; its key columns are the user's, and the pane's number. The
newest pane always stays: its number and its rows say how many rows the key has had.

A window over many panes costs no more than one over two. Panes are cut into blocks as long as a window; a window is the
end of a block and the begin of the next one, and all ends and begins are running states (van Herk, Pattern Recognition
Letters 13, 1992, has this for minima).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
import pyarrow as pa

from rechannel.errors import TimestepError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.overflow import combined, does_not_fit
from rechannel.kernels.columnar.sorting import from_numpy, nested_order, take
from rechannel.kernels.protocol.bases import ManyRows, held_by
from rechannel.kernels.protocol.capabilities import Viewed
from rechannel.kernels.protocol.logic import Changed, OperatorInput, OperatorOutput
from rechannel.model.buffers import IntArray, Mask, ragged
from rechannel.operators.aggregate.logic import AggregateLogic, KeepsAggregates
from rechannel.operators.aggregate.running_states import CHUNK_ROWS, scanned, scanned_back

PANE = pa.field("_pane", pa.int64(), False)
WINDOW = pa.field("window", pa.int64(), False)
COUNT = "_rows"
"""The last aggregate of `CountedLogic.inner`: how many rows a pane has."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedLogic(ManyRows, Viewed, KeepsAggregates):
    """Aggregates of the rows of a key in windows of a number of rows: a `StatefulLogic`. Emitted when complete."""

    inner: AggregateLogic
    """Over the user's keys; its last aggregate counts rows."""
    size: int
    """Rows of a window."""
    every: int
    """Rows from the begin of one window to that of the next."""

    @property
    def pane(self) -> int:
        """Rows of a pane."""
        return gcd(self.size, self.every)

    @property
    def keys(self) -> pa.Schema:
        """The user's keys."""
        return self.inner.key_schema

    @property
    def kept_aggregates(self) -> AggregateLogic:
        """What is kept of the rows."""
        return self.inner

    @property
    def key_schema(self) -> pa.Schema:
        """Keys, and the number of the pane."""
        return self.keys.append(PANE)

    @property
    def value_schema(self) -> pa.Schema:
        """Return the columns that the aggregates read."""
        return self.inner.value_schema

    @property
    def state_schema(self) -> pa.Schema:
        """Return the state columns of the aggregates."""
        return self.inner.state_schema

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, number of the window, aggregates."""
        fields = list(self.inner.output_schema)[len(self.keys) : -1]
        return pa.schema([*self.keys, WINDOW, *fields])

    @cached_property
    def view_schema(self) -> pa.Schema:
        """Keys, number of the pane, aggregates and number of its rows."""
        return pa.schema([*self.key_schema, *list(self.inner.output_schema)[len(self.keys) :]])

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Panes, as state is shown."""
        width = len(self.keys)
        inner = self.inner.finish(keys[:width], state)
        columns = [*inner.columns[:width], keys[width], *inner.columns[width:]]
        return pa.RecordBatch.from_arrays(columns, schema=self.view_schema)

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Put rows into panes, show windows that are complete, and forget panes that no window needs any more."""
        panes = self._panes(arrivals)
        first = self._complete(panes.before)
        begun = self._complete(panes.after)
        owners = np.repeat(np.arange(len(first)), begun - first)
        windows = ragged(first, begun - first)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=self._windows(arrivals, panes, owners, windows),
            output_hashes=arrivals.hashes[owners],
            changed=self._changed(arrivals, panes, begun * self.every // self.pane),
        )

    def _complete(self, rows: IntArray) -> IntArray:
        """Return how many windows of a key are complete after a number of rows."""
        complete: IntArray = np.maximum((rows - self.size) // self.every + 1, 0)
        return complete

    def _panes(self, arrivals: OperatorInput) -> _Panes:
        """Panes that were there with the rows that came."""
        held, groups = held_by(arrivals), arrivals.groups
        count = len(held.owners)
        there = self.row_order(held.keys)
        before = np.zeros(groups.count, dtype=np.int64)
        last = np.flatnonzero(np.diff(held.owners, append=groups.count))
        rows = held.state[-1].to_numpy(zero_copy_only=False)
        before[held.owners[last]] = there[last] * self.pane + rows[last]
        place = np.arange(groups.rows) + np.repeat(before - groups.starts, groups.sizes)
        numbers = place // self.pane
        starts = _edges(groups.ids, numbers)
        came, parts = combined(self.inner.combine, arrivals.values, Groups(starts, groups.rows))
        starts = parts.starts
        owners = np.concatenate([held.owners, groups.ids[starts]])
        numbers = np.concatenate([there, numbers[starts]])
        order = nested_order(owners, numbers)
        states = [pa.concat_arrays(pair) for pair in zip(held.state, came, strict=True)]
        owners, numbers = owners[order], numbers[order]
        met = Groups(_edges(owners, numbers), len(order))
        return _Panes(
            before=before,
            after=before + groups.sizes,
            owners=owners[met.starts],
            numbers=numbers[met.starts],
            states=self.inner.merged_states(take(states, order), met),
            fresh=order[met.ends - 1] >= count,
            held=order[met.starts] < count,
        )

    def _windows(
        self, arrivals: OperatorInput, panes: _Panes, owners: IntArray, windows: IntArray
    ) -> pa.RecordBatch:
        """Windows of keys, made of panes."""
        begin = windows * self.every // self.pane
        states = self._made(panes, owners, begin)
        width = len(self.keys)
        inner = self.inner.finish(take(arrivals.keys, owners), states)
        number = from_numpy(np.ascontiguousarray(windows), WINDOW.type)
        columns = [*inner.columns[:width], number, *inner.columns[width:-1]]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def _made(self, panes: _Panes, owners: IntArray, begin: IntArray) -> Columns:
        """States of windows. begin: numbers of their first panes."""
        length = self.size // self.pane
        # The panes of a key follow one another without a gap.
        start = np.searchsorted(panes.owners, owners)
        first = start + begin - panes.numbers[start] if len(start) else start
        if length == 1 or not len(first):
            return take(panes.states, first)
        showing = np.zeros(len(panes.before), dtype=np.bool_)
        showing[owners] = True
        kept = np.flatnonzero(showing[panes.owners])
        first = (np.cumsum(showing[panes.owners]) - 1)[first]
        pieces = []
        step = max(CHUNK_ROWS, length)
        for at in range(0, len(first), step):
            some = slice(at, at + step)
            begins = first[some]
            rows = kept[begins[0] : begins[-1] + length]
            starts = begins - begins[0]
            try:
                made = self._met(panes, rows, starts, begin[some] % length > 0)
            except TimestepError as error:
                if not does_not_fit(error):
                    raise
                made = self._one_by_one(panes, rows, starts)  # windows may fit though blocks do not
            pieces.append(made)
        return [pa.concat_arrays(columns) for columns in zip(*pieces, strict=True)]

    def _met(self, panes: _Panes, rows: IntArray, first: IntArray, cut: Mask) -> Columns:
        """States of windows. rows: of panes. first: each window's first one. cut: a block ends within the window."""
        length = self.size // self.pane
        numbers = panes.numbers[rows] // length
        blocks = Groups(_edges(panes.owners[rows], numbers), len(rows))
        states = take(panes.states, rows)
        begins = take(scanned(states, blocks, self._merge), first + length - 1)
        ends = take(scanned_back(states, blocks, self._merge), first)
        return self.inner.merged_pairs(ends, begins, cut)

    def _one_by_one(self, panes: _Panes, rows: IntArray, first: IntArray) -> Columns:
        """States of windows, each of its panes at once: exact, and slow where windows overlap."""
        length = self.size // self.pane
        states = take(panes.states, rows[ragged(first, np.full(len(first), length))])
        windows = Groups(np.arange(len(first), dtype=np.int64) * length, len(first) * length)
        return self.inner.merged_states(states, windows)

    def _merge(self, earlier: Columns, later: Columns) -> Columns:
        everywhere = np.ones(len(later[0]), dtype=np.bool_)
        return self.inner.merged_pairs(earlier, later, everywhere)

    def _changed(self, arrivals: OperatorInput, panes: _Panes, needed: IntArray) -> Changed:
        """Panes that got rows, and tombstones of those that no window needs. needed: each key's first one."""
        newest = np.diff(panes.owners, append=len(panes.before)) > 0
        stays = newest | (panes.numbers >= needed[panes.owners])
        rows = np.flatnonzero((panes.fresh & stays) | (panes.held & ~stays))
        owners, numbers = panes.owners[rows], panes.numbers[rows]
        hashes = arrivals.hashes[owners]
        # Keys that share a hash lie between each other.
        order = nested_order(hashes, numbers)
        rows, owners = rows[order], owners[order]
        dropped = ~stays[rows]
        return Changed(
            hashes=hashes[order],
            columns=[
                *take(arrivals.keys, owners),
                from_numpy(numbers[order], PANE.type),
                *take(panes.states, rows),
            ],
            dropped=dropped if dropped.any() else None,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Panes:
    """Panes of the keys of a timestep, by key and number.

    before, after: how many rows each key had, and has. owners, numbers, states: of every pane. fresh: it got rows.
    held: it was there.
    """

    before: IntArray
    after: IntArray
    owners: IntArray
    numbers: IntArray
    states: Columns
    fresh: Mask
    held: Mask


def _edges(owners: IntArray, numbers: IntArray) -> IntArray:
    """Where a stretch of equal owners and numbers begins."""
    edges = np.ones(len(owners), dtype=np.bool_)
    edges[1:] = (owners[1:] != owners[:-1]) | (numbers[1:] != numbers[:-1])
    return np.flatnonzero(edges)
