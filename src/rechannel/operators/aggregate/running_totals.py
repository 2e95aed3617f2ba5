"""Totals of many panes that are kept up: what enters is added, what leaves is taken out.

A total row is a key, the state of all rows in the window, how many panes of the key are in it, and tallies (see
`logic.Invertible`). It follows from the panes alone, so that it can be made anew of them at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.reductions import total
from rechannel.kernels.columnar.sorting import from_numpy, group_rows, sort_index, take
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.protocol.logic import Invertible
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.hashspace import HashArray

PANES = pa.field("_panes", pa.int64(), False)
LEAVES = pa.field("_leaves", pa.bool_(), False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Something that states can be taken out of. columns: its place in the state."""

    function: Invertible
    columns: slice


@dataclass(frozen=True, eq=False, kw_only=True)
class Running:
    """What is done with totals. keys: those of a total, without the window. state: its state columns.

    Rows are sorted by hash. Their columns are keys, `_panes`, and of every part state and tallies.
    """

    keys: pa.Schema
    state: pa.Schema
    parts: tuple[Part, ...]

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Columns of every part, tallies included."""
        out = []
        for part in self.parts:
            nothing = [pa.array([], field.type) for field in list(self.state)[part.columns]]
            out.append(len(nothing) + len(part.function.tally(nothing)))
        return tuple(out)

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns of totals as they are kept; `_leaves`: this is to be taken out of the others of the key."""
        fields = [*self.keys, PANES]
        for number, (part, width) in enumerate(zip(self.parts, self.widths, strict=True)):
            mine = list(self.state)[part.columns]
            names = [f"_tally_{number}_{i}" for i in range(width - len(mine))]
            fields += [*mine, *(pa.field(name, pa.int64(), False) for name in names)]
        return pa.schema([*fields, LEAVES])

    def entering(self, hashes: HashArray, keys: Columns, state: Columns) -> Rows:
        """Panes as totals of one pane each."""
        columns = [*keys, from_numpy(np.ones(len(hashes), dtype=np.int64), PANES.type)]
        for part in self.parts:
            mine = state[part.columns]
            columns += [*mine, *part.function.tally(mine)]
        return Rows(hashes, columns, None)

    def states(self, rows: Rows) -> Columns:
        """State columns of totals."""
        columns, at = Columns(), len(self.keys) + 1
        for part, width in zip(self.parts, self.widths, strict=True):
            columns += rows.columns[at : at + part.columns.stop - part.columns.start]
            at += width
        return columns

    def merged(self, several: Sequence[Rows]) -> Rows:
        """One total per key, the earlier rows of a key first."""
        several = [rows for rows in several if len(rows)] or list(several[:1])
        rows = several[0]
        if len(several) > 1:
            hashes = np.concatenate([one.hashes for one in several])
            order = sort_index(hashes)
            whole = zip(*(one.columns for one in several), strict=True)
            columns = take([pa.concat_arrays(parts) for parts in whole], order)
            rows = Rows(hashes[order], columns, None)
        groups, untangled = group_rows(rows.hashes, rows.columns[: len(self.keys)])
        if untangled is not None:
            rows = picked(rows, untangled)
        return rows if groups.count == groups.rows else self._merged(rows, groups)

    def less(self, rows: Rows, others: Rows) -> tuple[Rows, IntArray]:
        """Subtract from totals others of the same keys that were merged into them; return also which are unclear.

        Keys of which nothing is left are not there any more.
        """
        if not len(others):
            return rows, np.empty(0, dtype=np.int64)
        at = self.places(rows, others)
        panes = len(self.keys)
        counts = rows.columns[panes].to_numpy().copy()
        counts[at] -= others.columns[panes].to_numpy()
        left = np.flatnonzero(counts[at] > 0)
        at, others = at[left], picked(others, left)
        one = picked(rows, at)
        columns, unclear = [from_numpy(counts[at], PANES.type)], np.zeros(len(at), dtype=np.bool_)
        place = panes + 1
        for part, width in zip(self.parts, self.widths, strict=True):
            mine = slice(place, place + width)
            made, not_told = part.function.subtract(one.columns[mine], others.columns[mine])
            columns += made
            unclear = unclear if not_told is None else unclear | not_told
            place += width
        told = Rows(one.hashes, [*one.columns[:panes], *columns], None)
        kept = np.flatnonzero(counts > 0)
        rows = picked(self.replaced(rows, at, told), kept)
        return rows, np.searchsorted(kept, at[unclear])

    def replaced(self, rows: Rows, at: IntArray, by: Rows) -> Rows:
        """Totals some of which are others."""
        if not len(at):
            return rows
        place = np.arange(len(rows), dtype=np.int64)
        place[at] = len(rows) + np.arange(len(at))
        both = [pa.concat_arrays(pair) for pair in zip(rows.columns, by.columns, strict=True)]
        return Rows(rows.hashes, take(both, place), None)

    def places(self, rows: Rows, others: Rows) -> IntArray:
        """Where the keys of others are among the keys of totals. Raises ValueError for one that is not there."""
        at, there = self.find(rows, others)
        if not bool(there.all()):
            msg = "what leaves a window was never in it"
            raise ValueError(msg)
        return at

    def find(self, rows: Rows, others: Rows) -> tuple[IntArray, Mask]:
        """Where the keys of others are among those of totals, and whether they are; keys are distinct in both."""
        width, count = len(self.keys), len(rows)
        keys = [
            pa.concat_arrays([one, other])
            for one, other in zip(rows.columns[:width], others.columns[:width], strict=True)
        ]
        hashes = np.concatenate([rows.hashes, others.hashes])
        order = sort_index(hashes)
        groups, untangled = group_rows(hashes[order], take(keys, order))
        order = order if untangled is None else order[untangled]
        # Sorting is stable: the total is in front of what is asked for.
        first = order[groups.starts][groups.ids]
        at = np.empty(len(hashes), dtype=np.int64)
        at[order] = first
        asked = at[count:]
        return asked, asked < count

    def _merged(self, rows: Rows, groups: Groups) -> Rows:
        width = len(self.keys)
        columns = take(rows.columns[:width], groups.starts)
        panes = total(rows.columns[width].to_numpy(), groups)
        columns.append(from_numpy(panes, PANES.type))
        at = width + 1
        for part, wide in zip(self.parts, self.widths, strict=True):
            columns += part.function.merge_tallied(rows.columns[at : at + wide], groups)
            at += wide
        return Rows(rows.hashes[groups.starts], columns, None)


def picked(rows: Rows, at: IntArray) -> Rows:
    """Return the rows at some positions, in their order."""
    return Rows(rows.hashes[at], take(rows.columns, at), None)
