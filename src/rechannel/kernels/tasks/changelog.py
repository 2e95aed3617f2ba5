"""What happened to the table that an operator's rows make up, in one timestep: its changelog, for `Revising` operators.

A task has the state of its keys before the timestep anyway, and what it writes. The rows of both, as the operator
presents them, are put side by side by the key of the table. So a changelog needs no look-up and no state of
its own, and follows from the same values as the output: a repeated attempt, or another number of tasks, makes the same.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import joined, narrowed
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.functions.changelog import with_words, words_of
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.lsm.runs import halves
from rechannel.kernels.protocol.capabilities import Emitted
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.changelog import DELETE, INSERT, KINDS, UPDATE_AFTER, UPDATE_BEFORE
from rechannel.model.hashing import keys_equal


def changelog(
    can: Capabilities,
    arrivals: OperatorInput,
    applied: OperatorOutput,
    fresh: Rows,
    *,
    shown: Emitted,
    due: Rows | None,
) -> Emitted:
    """Return the changelog of a part of a task. Raises ValueError for an operator that has none.

    fresh: state that changed. shown: all that is emitted. due: state rows of other keys that were emitted, or ended.
    """
    revising = can.revising
    if revising is None:
        msg = f"{type(can.logic).__name__} never replaces a row"
        raise ValueError(msg)
    old = _replaced(can, arrivals, applied)
    if revising.times_out and due is not None:
        old = _joined([old, due.where(_passed(can, due, arrivals.clock.watermark))])
    if not revising.on_close_only:
        kept = fresh if fresh.dropped is None else fresh.where(~fresh.dropped)
        return difference(_presented(can, old), _presented(can, kept), revising.table_key)
    closed = old.where(_passed(can, old, arrivals.clock.before))
    return difference(_presented(can, closed), shown, revising.table_key)


def difference(before: Emitted, after: Emitted, table_key: int) -> Emitted:
    """Return the changes that lead from some rows of a table to others, by hash. table_key: see `Revising`.

    before, after: rows and their hashes; no two of one side are equal in the first columns.
    """
    count = len(before[1])
    hashes = np.concatenate([before[1], after[1]])
    columns = [joined(list(pair)) for pair in zip(before[0].columns, after[0].columns, strict=True)]
    order = sort_index(hashes)  # stable: a row comes before the one in its place
    groups, untangled = group_rows(hashes[order], take(columns[:table_key], order))
    if untangled is not None:
        order = order[untangled]
    first = groups.starts[groups.sizes == 2]
    equal = _equal(columns[table_key:], order[first], order[first + 1])
    kept = np.ones(len(order), dtype=np.bool_)
    kept[first[equal]] = kept[first[equal] + 1] = False
    paired = np.zeros(len(order), dtype=np.bool_)
    paired[first] = paired[first + 1] = True
    codes = np.where(
        order < count,
        np.where(paired, KINDS.index(UPDATE_BEFORE), KINDS.index(DELETE)),
        np.where(paired, KINDS.index(UPDATE_AFTER), KINDS.index(INSERT)),
    )
    order, codes = order[kept], codes[kept]
    schema = with_words(after[0].schema)
    rows = narrowed([*take(columns, order), words_of(codes, KINDS)], schema)
    return pa.RecordBatch.from_arrays(rows, schema=schema), hashes[order]


def _replaced(can: Capabilities, arrivals: OperatorInput, applied: OperatorOutput) -> Rows:
    """Return the state rows, as of the previous timestep, that the rows of their keys replaced or ended."""
    if arrivals.held is not None:
        return _held(can, arrivals, applied)
    touched = arrivals.found
    if applied.untouched is not None:
        touched = touched & ~(applied.untouched & ~_over(can, arrivals))
    some = np.flatnonzero(touched)
    return Rows(
        arrivals.hashes[some], [*take(arrivals.keys, some), *take(arrivals.old, some)], None
    )


def _over(can: Capabilities, arrivals: OperatorInput) -> Mask:
    """Return which keys' old state no longer counts, if their rows then leave the table."""
    nothing = np.zeros(len(arrivals.found), dtype=np.bool_)
    if can.revising is None or not can.revising.times_out:
        return nothing
    alive = can.live(arrivals.keys, arrivals.old, arrivals.clock)
    return nothing if alive is None else arrivals.found & ~alive


def _held(can: Capabilities, arrivals: OperatorInput, applied: OperatorOutput) -> Rows:
    """Return the stored rows that others with the same key columns replace, or tombstones end."""
    held, changed = arrivals.held, applied.changed
    if held is None or changed is None or not len(held.owners):
        return Rows(arrivals.hashes[:0], [pa.array([], f.type) for f in can.stored_schema], None)
    count, width = len(held.owners), len(can.logic.key_schema)
    own = arrivals.hashes[held.owners]
    hashes = np.concatenate([own, changed.hashes])
    keys = [joined([one, new]) for one, new in zip(held.keys, changed.columns[:width], strict=True)]
    among = can.row_order(keys)
    order = sort_index(hashes, among)
    ordered = None if among is None else among[order]
    groups, untangled = group_rows(hashes[order], take(keys, order), ordered)
    if untangled is not None:
        order = order[untangled]
    some = np.sort(order[groups.starts[groups.sizes == 2]])
    some = some[some < count]
    return Rows(own[some], [*take(held.keys, some), *take(held.state, some)], None)


def _passed(can: Capabilities, rows: Rows, watermark: int) -> Mask:
    """Return which state rows waited, or lasted, for an event time that has passed."""
    timers = can.timer_of(*halves(can, rows))
    if timers is None:
        return np.zeros(len(rows), dtype=np.bool_)
    passed: Mask = timers <= watermark
    return passed


def _presented(can: Capabilities, rows: Rows) -> Emitted:
    return can.logic.finish(*halves(can, rows)), rows.hashes


def _joined(parts: list[Rows]) -> Rows:
    columns = [joined(list(pair)) for pair in zip(*(part.columns for part in parts), strict=True)]
    return Rows(np.concatenate([part.hashes for part in parts]), columns, None)


def _equal(columns: Columns, one: IntArray, other: IntArray) -> Mask:
    """Return which pairs of rows are equal, as in SQL's GROUP BY."""
    if not columns or not len(one):
        return np.ones(len(one), dtype=np.bool_)
    return keys_equal(take(columns, one), take(columns, other))
