"""A table as it was read at some time: one row per key, and what differs between two such.

Rows of a DataFrame have no order, so nothing here may depend on one: of the rows of a key, one has to be the newest,
and if none is, that is said instead of guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups, IntArray
from rechannel.kernels.columnar.ranking import newest
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.shuffle.send import plain_key
from rechannel.model.canonical import canonical
from rechannel.model.hashing import hash_columns, keys_equal


def one_row_per_key(
    rows: pa.RecordBatch, keys: Sequence[str], by: Sequence[str], what: str
) -> pa.RecordBatch:
    """The newest row of every key, by hash of the key; rows with a null in the key are left out.

    by: columns that tell the newer row. what: what messages call the table. Raises SourceError for a key of which
    several rows are the newest.
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
    """Rows that are new or other ones, as they are now; rows of keys that are gone, as they were.

    before, after: one row per key each, under the same columns. Only their keys are put into one column each, as values
    that may be of any size together: two columns of text that one batch can hold each are too much for one.
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
    """Rows in the order of their keys, and which ones belong to which key."""
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
    """Raise SourceError if a row that is not chosen has as good a claim, and is another one."""
    winners = chosen[groups.ids]
    differs = ~keys_equal(rows.columns, take(rows.columns, winners))
    if by:
        order = [rows.column(name) for name in by]
        differs &= keys_equal(order, take(order, winners))
    unclear = np.flatnonzero(differs)
    if len(unclear):
        key = ", ".join(f"{name} = {rows.column(name)[int(unclear[0])]}" for name in keys)
        alike = f" that are alike in {', '.join(by)}" if by else ""
        msg = (
            f"{what} has several rows of {key}{alike}, and rows of a DataFrame have no order: say with by= which"
            " columns tell the newer row, or leave one row per key"
        )
        raise SourceError(msg)
