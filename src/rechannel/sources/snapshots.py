"""A table as it was read at one time: one row per key, and the differences between two readings.

Rows of a DataFrame have no order, so nothing here may depend on one: of the rows of a key, one has
to be the newest, and if that is ambiguous, it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.ranking import newest
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.shuffle.send import plain_key
from rechannel.model.buffers import IntArray
from rechannel.model.canonical import canonical
from rechannel.model.hashing import hash_columns, keys_equal


def one_row_per_key(
    rows: pa.RecordBatch, keys: Sequence[str], by: Sequence[str], what: str
) -> pa.RecordBatch:
    """Return the newest row of every key, ordered by hash of the key; rows with a null in the key
    are left out.

    by: columns that say which row is newer. what: name of the table for messages. Raises
    SourceError if several rows of a key are the newest.
    """
    void = np.zeros(rows.num_rows, dtype=np.bool_)
    for key in keys:
        void |= rows.column(key).is_null().to_numpy(zero_copy_only=False)
    rows = rows.take(pa.array(np.flatnonzero(~void)))
    order, groups = _by_key([rows.column(key) for key in keys])
    rows = rows.take(pa.array(order))
    if groups.count == groups.rows:
        return rows
    chosen = newest([rows.column(name) for name in by], groups.ids)
    _refuse_ties(rows, chosen, groups, keys, by, what)
    return rows.take(pa.array(chosen))


def differences(
    before: pa.RecordBatch, after: pa.RecordBatch, keys: Sequence[str]
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Return rows that are new or changed, and the old rows of keys that are gone.

    before, after: one row per key each, with the same columns. Only their keys are concatenated,
    as values of unlimited size: two text columns that fit into one batch each may be too large for
    one together.
    """
    both = [
        pa.concat_arrays([canonical(before.column(key)), canonical(after.column(key))])
        for key in keys
    ]
    order, groups = _by_key(both)
    old = np.full(groups.count, -1, dtype=np.int64)
    new = np.full(groups.count, -1, dtype=np.int64)
    there = order < before.num_rows
    old[groups.ids[there]] = order[there]
    new[groups.ids[~there]] = order[~there] - before.num_rows
    twice = np.flatnonzero((old >= 0) & (new >= 0))
    same = np.zeros(groups.count, dtype=np.bool_)
    if len(twice):
        same[twice] = keys_equal(take(before.columns, old[twice]), take(after.columns, new[twice]))
    changed, gone = new[(new >= 0) & ~same], old[new < 0]
    return after.take(pa.array(changed)), before.take(pa.array(gone))


def _by_key(keys: Columns) -> tuple[IntArray, Groups]:
    """Return the order of rows by key, and which rows belong to which key."""
    columns = [plain_key(key) for key in keys]
    hashes = hash_columns(columns)
    order = sort_index(hashes)
    groups, untangled = group_rows(hashes[order], take(columns, order))
    return (order if untangled is None else order[untangled]), groups


def _refuse_ties(
    rows: pa.RecordBatch,
    chosen: IntArray,
    groups: Groups,
    keys: Sequence[str],
    by: Sequence[str],
    what: str,
) -> None:
    """Raise SourceError if a row that is not chosen is as new as the chosen one, and differs from
    it.
    """
    winners = chosen[groups.ids]
    differs = ~keys_equal(rows.columns, take(rows.columns, winners))
    if by:
        order = [rows.column(name) for name in by]
        differs &= keys_equal(order, take(order, winners))
    unclear = np.flatnonzero(differs)
    if len(unclear):
        key = ", ".join(f"{name} = {rows.column(name)[int(unclear[0])]}" for name in keys)
        alike = f" that are equal in {', '.join(by)}" if by else ""
        msg = (
            f"{what} has several rows of {key}{alike}, and rows of a DataFrame have no order: name with by= the"
            " columns that say which row is newer, or keep one row per key"
        )
        raise SourceError(msg)
