"""Read the state rows of keys that have several: ranges of equal hashes in sorted runs, the newest version of each row.

The cost follows the rows of the keys that are looked up, not the rows stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from rechannel.errors import KeyTooLargeError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import joined, narrowed
from rechannel.kernels.columnar.sorting import (
    fast_take,
    from_numpy,
    group_rows,
    sort_index,
    take,
)
from rechannel.kernels.lsm.hash_filter import candidates
from rechannel.kernels.lsm.lookup import OpenRun, bisect, within
from rechannel.kernels.lsm.merge import Live, Rows, merge_rows
from rechannel.kernels.protocol.capabilities import LookupRange
from rechannel.kernels.protocol.logic import OperatorInput, StoredRows
from rechannel.kernels.protocol.migrate import converted
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.buffers import IntArray, Mask, ragged
from rechannel.model.hashing import hash_is_key, keys_equal
from rechannel.model.hashspace import HashArray
from rechannel.model.keyorder import partners
from rechannel.model.spread import Share
from rechannel.state.segments.segment import Segment


def collect(
    can: Capabilities,
    runs: Sequence[OpenRun],
    hashes: HashArray,
    keys: Columns,
    live: Live,
    asked: LookupRange | None = None,
    *,
    share: Share | None = None,
) -> StoredRows:
    """Return the state rows of keys.

    runs: newest first. hashes: ascending. keys: distinct, the hashed key columns only. live: which rows still count.
    asked: which rows of each key are wanted; None means all. share: the task's part in the spread bin of the keys.
    Raises KeyTooLargeError.
    """
    parts = [part for run in runs for part in _rows_of(can, run, hashes, keys, asked, share)]
    if not parts:
        return StoredRows(
            keys=[pa.array([], field.type) for field in can.logic.key_schema],
            state=[pa.array([], field.type) for field in can.logic.state_schema],
            owners=np.empty(0, dtype=np.int64),
        )
    width = len(can.logic.key_schema)

    def alive(known: Columns, state: Columns) -> Mask | None:
        return live(known, state[:-1])

    if len(parts) == 1:
        rows = _alive(parts[0], width, alive)
    else:
        rows = merge_rows(parts, width, alive, bottom=True, row_order=can.row_order)
    owners = rows.columns[-1].to_numpy(zero_copy_only=False)
    columns = rows.columns[:-1]
    if len(owners) and bool((owners[1:] < owners[:-1]).any()):
        # Keys that share a hash may be in another order in the runs than in `keys`.
        order = np.argsort(owners, kind="stable")
        owners, columns = owners[order], take(columns, order)
    schema = can.stored_schema
    try:
        columns = narrowed(columns, schema)
    except pa.ArrowInvalid as error:
        msg = (
            f"{runs[0].origin}: the state of a key that received rows is too large to be read at once"
            f" ({error}). Bound how long it is kept (`within=`), or key by more columns"
        )
        raise KeyTooLargeError(msg) from error
    return StoredRows(keys=columns[:width], state=columns[width:], owners=owners)


def _alive(rows: Rows, keys: int, live: Live) -> Rows:
    """Return the rows of a run that count. It has each full key once: see `tests/property/test_run_writers.py`.

    keys: number of key columns.
    """
    if rows.dropped is not None:
        rows = rows.where(~rows.dropped)
    alive = live(rows.columns[:keys], rows.columns[keys:])
    return rows if alive is None else rows.where(alive)


def whole_keys(
    can: Capabilities,
    parts: Sequence[Rows],
    received: OperatorInput,
    runs: Sequence[OpenRun],
    live: Live,
) -> Rows:
    """Return all state rows of the keys that have rows in `parts` but received none: of a spread bin, the task's.

    Rows are sorted by hash and key, then by the row order key.
    """
    hashes = np.concatenate([received.hashes, *(part.hashes for part in parts)])
    keys = [
        joined([received.keys[i], *(part.columns[i] for part in parts)]) for i in range(can.hashed)
    ]
    order = sort_index(hashes)
    groups, untangled = group_rows(hashes[order], take(keys, order))
    if untangled is not None:
        order = order[untangled]
    first = order[groups.starts]  # for a key that received rows, one that it received
    others = first[first >= len(received.hashes)]
    asked = hashes[others]
    held = collect(can, runs, asked, take(keys, others), live, share=received.share)
    return Rows(asked[held.owners], [*held.keys, *held.state], None)


def _rows_of(
    can: Capabilities,
    run: OpenRun,
    hashes: HashArray,
    keys: Columns,
    wanted: LookupRange | None,
    share: Share | None,
) -> list[Rows]:
    """Return rows of one run with one more column: the number of their key."""
    segment = run.segment
    needles, first, last = spans(can, run, hashes, wanted)
    if not len(needles):
        return []
    mine = None if share is None else partial(_of_share, can, segment, share)
    owners, rows, columns = _owned(segment, keys, needles, hashes[needles], (first, last), mine)
    if not len(rows):
        return []
    dropped = None if segment.dropped is None else segment.dropped[rows]
    if run.migrations:
        columns, dropped = converted(run.migrations, columns, dropped, origin=run.origin)
    columns.append(from_numpy(owners, pa.int64()))
    return [Rows(hashes[owners], columns, dropped)]


def spans(
    can: Capabilities, run: OpenRun, hashes: HashArray, wanted: LookupRange | None
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the needles that one run may have rows of, and for each the range [first, last) of these rows.

    hashes: ascending. wanted: as `asked` of `collect`.
    """
    segment = run.segment
    needles = within(run, hashes, np.arange(len(hashes), dtype=np.int64))
    if not len(needles) or not segment.rows:
        return needles[:0], needles[:0], needles[:0]
    asked = hashes[needles]
    maybe = None if run.base else candidates(segment, asked, run.clip)
    if maybe is not None:
        needles, asked = needles[maybe], asked[maybe]
    first = segment.search(asked, run.clip)
    if _hashes_differ(segment):
        inside = np.minimum(first, segment.rows - 1)
        last = first + (segment.hashes[inside] == asked)
    else:
        last = segment.search(asked, run.clip, "right")
    if wanted is not None:
        width = len(can.logic.key_schema)
        first, last = (
            bisect(segment, first, last, border[needles], row_order=can.row_order, keys=width)
            for border in wanted
        )
    return needles, first, last


def _hashes_differ(segment: Segment) -> bool:
    """Return whether no two rows of a segment are known to have one hash. It reads all hashes, if they are here."""
    if segment.partial:
        return False
    if "hashes differ" not in segment.memo:
        hashes = segment.hashes
        segment.memo["hashes differ"] = bool((hashes[1:] != hashes[:-1]).all())
    differ: bool = segment.memo["hashes differ"]
    return differ


def _of_share(can: Capabilities, segment: Segment, share: Share, rows: IntArray) -> Mask | None:
    """Return which rows of a segment a task considers, given its part in a spread bin; None = all of them."""
    return can.considered([fast_take(segment.column(len(can.logic.key_schema) - 1), rows)], share)


def _owned(
    segment: Segment,
    keys: Columns,
    needles: IntArray,
    asked: HashArray,
    span: LookupRange,
    considered: Callable[[IntArray], Mask | None] | None,
) -> tuple[IntArray, IntArray, Columns]:
    """Return the rows of needles, in the order of the needles: needle, position and columns of each row.

    asked: hashes of the needles. span: for each needle the range [first, last) of rows that may be its own.
    considered: says which rows count; None = all of them.
    """
    first, last = span
    # Needles of one hash may share their rows: each row is read once and then matched with its needle.
    heads = np.flatnonzero(np.diff(asked, prepend=~asked[:1]))
    alone = len(heads) == len(asked)
    begin = first if alone else np.minimum.reduceat(first, heads)
    count = (last if alone else np.maximum.reduceat(last, heads)) - begin
    rows, groups = ragged(begin, count), np.repeat(np.arange(len(heads)), count)
    segment.touch(rows)
    counting = None if considered is None else considered(rows)
    if counting is not None:
        rows, groups = rows[counting], groups[counting]
    columns = take([segment.column(i) for i in range(len(segment.schema))], rows)
    if hash_is_key(keys) and hash_is_key(columns[: len(keys)]):
        return needles[groups], rows, columns
    if alone:
        owners = groups
        kept = keys_equal(take(keys, needles[owners]), columns[: len(keys)])
    else:
        of_hash = np.repeat(np.arange(len(heads)), np.diff(np.append(heads, len(asked))))
        owners = partners(of_hash, take(keys, needles), groups, columns[: len(keys)])
        kept = (owners >= 0) & (rows >= first[owners]) & (rows < last[owners])
    if not bool(kept.all()):
        some = np.flatnonzero(kept)
        owners, rows, columns = owners[some], rows[some], take(columns, some)
    return needles[owners], rows, columns
