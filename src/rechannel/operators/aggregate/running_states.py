"""Running states: for each row, the state of an aggregate over the rows of its group up to that row.

Neighbours are merged in pairs, the pairs are scanned in the same way, and each state in between is made of the pair
before it and one row: two merges per row, for all groups at once, whatever their sizes (Blelloch, "Prefix Sums and
Their Applications", 1990). It uses the aggregate's own merge, so the state after a row is that of a batch that ends
with the row.

An aggregate that knows a faster way has it as `running_states` (counts, sums of integers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.model.buffers import Mask


@runtime_checkable
class RunningAggregate(Protocol):
    """An `AggregateFunction` that computes its own running states, faster than by merges."""

    def running_states(
        self, values: Columns, groups: Groups, before: Columns, known: Mask
    ) -> Columns | None:
        """Return the state after each row; None if it knows no faster way for this type.

        before, known: state of every group before its first row, and whether there was one.
        """


CHUNK_ROWS = 1 << 17
"""Rows whose states are held at a time."""

Merge = Callable[[Columns, Columns], Columns]
"""(states of earlier rows, states of later rows) -> states of both, element by element."""


def scanned(states: Columns, groups: Groups, merge: Merge) -> Columns:
    """Of every state, all states of its group up to it, merged."""
    if groups.count == groups.rows:
        return states
    place = np.arange(groups.rows) - np.repeat(groups.starts, groups.sizes)
    later = place % 2 == 1
    odd, even = np.flatnonzero(later), np.flatnonzero(~later & (place > 0))
    halves = groups.sizes // 2
    halves = halves[halves > 0]
    pairs = merge(take(states, odd - 1), take(states, odd))
    run = scanned(pairs, Groups(np.cumsum(halves) - halves, len(odd)), merge)
    rest = merge(take(run, np.cumsum(later)[even - 1] - 1), take(states, even))
    index = np.arange(groups.rows)
    index[odd] = groups.rows + np.arange(len(odd))
    index[even] = groups.rows + len(odd) + np.arange(len(even))
    pieces = zip(states, run, rest, strict=True)
    return take([pa.concat_arrays(piece) for piece in pieces], index)


def scanned_back(states: Columns, groups: Groups, merge: Merge) -> Columns:
    """Of every state, all states of its group from it on, merged."""
    back = np.arange(groups.rows)[::-1].copy()
    turned = Groups(groups.rows - groups.ends[::-1], groups.rows)
    run = scanned(take(states, back), turned, lambda later, earlier: merge(earlier, later))
    return take(run, back)


def running(
    function: AggregateFunction,
    fields: list[pa.Field],
    values: Columns,
    groups: Groups,
    old: Columns,
    found: Mask,
) -> tuple[pa.Array, Columns]:
    """Return an aggregate's finished value after each row, and the state of each group after its last row.

    old, found: state of every group before its first row, and whether there was one.
    """
    shown: list[pa.Array] = []
    kept: list[Columns] = []
    ids = groups.ids
    carried: Columns | None = None
    for start in range(0, max(groups.rows, 1), CHUNK_ROWS):
        stop = min(start + CHUNK_ROWS, groups.rows)
        mine = ids[start:stop]
        local = Groups(np.flatnonzero(np.diff(mine, prepend=-1)), stop - start)
        owners = mine[local.starts]
        before, known = take(old, owners), found[owners]
        if carried is not None:
            before = [
                pa.concat_arrays([one, others.slice(1)])
                for one, others in zip(carried, before, strict=True)
            ]
            known[0] = True
        given = [one.slice(start, stop - start) for one in values]
        states = _after_each(function, given, local, before, known)
        shown.append(function.final(states, fields))
        last = take(states, local.ends - 1)
        goes_on = stop < groups.rows and ids[stop] == ids[stop - 1]
        carried = [one.slice(local.count - 1) for one in last] if goes_on else None
        kept.append([one.slice(0, local.count - goes_on) for one in last])
    return pa.concat_arrays(shown), [pa.concat_arrays(one) for one in zip(*kept, strict=True)]


def _after_each(
    function: AggregateFunction, values: Columns, groups: Groups, before: Columns, known: Mask
) -> Columns:
    """Return the state after each row."""
    if isinstance(function, RunningAggregate):
        states = function.running_states(values, groups, before, known)
        if states is not None:
            return states
    everywhere = np.ones(groups.rows, np.bool_)

    def merge(earlier: Columns, later: Columns) -> Columns:
        return function.merge_pair(earlier, later, everywhere[: len(later[0])])

    single = Groups(np.arange(groups.rows, dtype=np.int64), groups.rows)
    states = scanned(function.partial(values, single), groups, merge)
    if not known.any():
        return states
    return function.merge_pair(take(before, groups.ids), states, known[groups.ids])
