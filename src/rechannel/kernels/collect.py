"""All state rows of keys that have several: ranges of equal hashes in sorted runs, the newest of each row.

Cost follows the rows of the keys that are asked for, not the rows stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.groups import IntArray
from rechannel.kernels.logic import Arrivals, Asked, Columns, Held, StatefulLogic
from rechannel.kernels.lookup import OpenRun, bisect, within
from rechannel.kernels.merge import Live, Rows, merge_rows
from rechannel.kernels.migrate import converted
from rechannel.kernels.sieve import candidates
from rechannel.kernels.sorting import from_numpy, group_rows, sort_index, take
from rechannel.model.hashing import hash_is_key, keys_equal
from rechannel.model.hashspace import HashArray


def collect(
    logic: StatefulLogic,
    runs: Sequence[OpenRun],
    hashes: HashArray,
    keys: Columns,
    live: Live,
    asked: Asked | None = None,
) -> Held:
    """State rows of keys.

    runs: newest first. hashes, keys: ascending and distinct as keys; as many key columns as are hashed. live: which
    rows still count. asked: which rows of every key are wanted; None = all.
    """
    parts = [part for run in runs for part in _rows_of(logic, run, hashes, keys, asked)]
    if not parts:
        return Held(
            keys=[pa.array([], field.type) for field in logic.key_schema],
            state=[pa.array([], field.type) for field in logic.state_schema],
            owners=np.empty(0, dtype=np.int64),
        )
    width = len(logic.key_schema)

    def alive(known: Columns, state: Columns) -> npt.NDArray[np.bool_] | None:
        return live(known, state[:-1])

    rows = merge_rows(parts, width, alive, bottom=True, minor=logic.minor)
    owners = rows.columns[-1].to_numpy(zero_copy_only=False)
    columns = rows.columns[:-1]
    if len(owners) and bool((owners[1:] < owners[:-1]).any()):
        # Keys that share a hash come in another order there than here.
        order = np.argsort(owners, kind="stable")
        owners, columns = owners[order], take(columns, order)
    return Held(keys=columns[:width], state=columns[width:], owners=owners)


def whole_keys(
    logic: StatefulLogic,
    parts: Sequence[Rows],
    received: Arrivals,
    runs: Sequence[OpenRun],
    live: Live,
) -> Rows:
    """All state rows of the keys that have rows in some parts, and received none: by hash and key, then by `minor`."""
    hashes = np.concatenate([received.hashes, *(part.hashes for part in parts)])
    keys = [
        pa.concat_arrays([received.keys[i], *(part.columns[i] for part in parts)])
        for i in range(logic.hashed)
    ]
    order = sort_index(hashes)
    groups, untangled = group_rows(hashes[order], take(keys, order))
    if untangled is not None:
        order = order[untangled]
    first = order[groups.starts]  # of a key that received rows, what it received
    others = first[first >= len(received.hashes)]
    asked = hashes[others]
    held = collect(logic, runs, asked, take(keys, others), live)
    return Rows(asked[held.owners], [*held.keys, *held.state], None)


def _rows_of(
    logic: StatefulLogic, run: OpenRun, hashes: HashArray, keys: Columns, wanted: Asked | None
) -> list[Rows]:
    """Rows of one run, whose last column is the number of their key."""
    segment = run.segment
    needles = within(run, hashes, np.arange(len(hashes), dtype=np.int64))
    if not len(needles) or not segment.rows:
        return []
    asked = hashes[needles]
    maybe = None if run.base else candidates(segment, asked, run.clip)
    if maybe is not None:
        needles, asked = needles[maybe], asked[maybe]
    first, last = segment.search(asked, run.clip), segment.search(asked, run.clip, "right")
    if wanted is not None:
        width = len(logic.key_schema)
        first, last = (
            bisect(segment, first, last, border[needles], minor=logic.minor, keys=width)
            for border in wanted
        )
    count = last - first
    owners, rows = np.repeat(needles, count), ranges(first, count)
    if not len(rows):
        return []
    segment.touch(rows)
    columns = take([segment.column(i) for i in range(len(segment.schema))], rows)
    dropped = None if segment.dropped is None else segment.dropped[rows]
    if not hash_is_key(keys):
        alike = keys_equal(take(keys, owners), columns[: len(keys)])
        if not bool(alike.all()):
            kept = np.flatnonzero(alike)
            owners, columns = owners[kept], take(columns, kept)
            dropped = None if dropped is None else dropped[kept]
    if run.migrations:
        columns, dropped = converted(run.migrations, columns, dropped, origin=run.origin)
    columns.append(from_numpy(owners, pa.int64()))
    return [Rows(hashes[owners], columns, dropped)]


def ranges(first: IntArray, count: IntArray) -> IntArray:
    """first[0], first[0] + 1, ..., `count[0]` of them, then those of first[1], and so on."""
    before = np.cumsum(count) - count
    return np.repeat(first - before, count) + np.arange(int(count.sum()), dtype=np.int64)
