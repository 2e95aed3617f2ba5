"""Find the state of keys: point lookups of sorted hashes in sorted, memory-mapped runs, newest run first.

The cost follows the keys that are looked up, not the rows stored: a *needle*, the number of a key that is looked up, is
searched only in runs that may hold it (`hash_filter`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import joined, narrow
from rechannel.kernels.columnar.sorting import fast_take, from_numpy, is_plain, take
from rechannel.kernels.lsm.hash_filter import candidates
from rechannel.kernels.protocol.migrate import Chain, converted
from rechannel.model.buffers import IntArray, Mask, ragged
from rechannel.model.hashing import hash_is_key, keys_equal
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.model.keyorder import partners
from rechannel.state.segments.segment import Segment


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run with its segment opened."""

    segment: Segment
    clip: Intervals
    """Hashes for which the run counts."""
    base: bool = False
    """Whether it holds everything older; most needles that reach it are then found in it."""
    migrations: Chain = ()
    """How its state columns are converted; empty if they are those of the running logic."""

    @property
    def origin(self) -> str:
        """How messages name its rows."""
        return f"operator {self.segment.meta.operator!r}, segment {self.segment.key}"


@dataclass(frozen=True, eq=False)
class Hit:
    """Needles that were found in one run."""

    run: OpenRun
    needles: IntArray
    """Ascending."""
    rows: IntArray
    """Row of the run that each needle was found at."""


RowOrder = Callable[[Columns], IntArray | None]
"""Returns the row order key, by which rows of one hash are sorted, from the last key column; None if there is none."""


def unsorted(keys: Columns) -> None:
    """Return None: rows of one hash are not sorted further. This is a `RowOrder`."""


def find(
    runs: Sequence[OpenRun], hashes: HashArray, keys: Columns, row_order: RowOrder = unsorted
) -> list[Hit]:
    """Return the newest row of each key, tombstones included. hashes: ascending; keys: distinct."""
    hits: list[Hit] = []
    open_needles = np.arange(len(hashes), dtype=np.int64)
    exact = hash_is_key(keys)
    for run in runs:
        if len(open_needles) == 0:
            break
        wanted = within(run, hashes, open_needles)
        if len(wanted) == 0:
            continue
        needles, rows = _search(run, hashes, keys, wanted, row_order, exact=exact)
        if len(needles):
            run.segment.touch(rows)
            hits.append(Hit(run, needles, rows))
            open_needles = _without(open_needles, needles, len(hashes))
    return hits


def gather(hits: list[Hit], count: int, schema: pa.Schema, offset: int) -> tuple[Columns, Mask]:
    """Return the state columns of each needle, and which needles have state; tombstones do not count.

    count: number of needles. offset: position of the first state column in a segment, after the keys.
    """
    found = np.zeros(count, dtype=np.bool_)
    kept: list[Hit] = []
    for hit in hits:
        alive = hit
        dropped = hit.run.segment.dropped
        if dropped is not None:
            keep = ~dropped[hit.rows]
            alive = Hit(hit.run, hit.needles[keep], hit.rows[keep])
        kept.append(alive)
    sources = [_source(hit, schema, offset) for hit in kept if len(hit.needles)]
    for source in sources:
        found[source.needles] = True
    columns = [_gather(sources, count, schema.field(i), i) for i in range(len(schema))]
    return columns, found


def within(run: OpenRun, hashes: HashArray, needles: IntArray) -> IntArray:
    """Return the needles whose hash is in the run's clip."""
    asked = hashes[needles] if len(needles) < len(hashes) else hashes
    pieces = [needles[piece] for piece in run.clip.slices(asked)]
    if not pieces:
        return needles[:0]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _search(
    run: OpenRun,
    hashes: HashArray,
    keys: Columns,
    needles: IntArray,
    row_order: RowOrder,
    *,
    exact: bool,
) -> tuple[IntArray, IntArray]:
    segment = run.segment
    if segment.rows == 0:
        return needles[:0], needles[:0]
    asked = hashes[needles]
    maybe = None if run.base else candidates(segment, asked, run.clip)
    if maybe is not None:
        needles, asked = needles[maybe], asked[maybe]
    rows = segment.search(asked, run.clip)
    among = row_order(keys)
    if among is not None:
        last = segment.search(asked, run.clip, "right")
        needles, rows = _among(
            segment, needles, rows, last, among=among, row_order=row_order, keys=len(keys)
        )
        return _same_keys(run, hashes, keys, needles, rows, row_order)
    inside = np.minimum(rows, segment.rows - 1)
    match = segment.hashes[inside] == asked
    needles, rows = needles[match], rows[match]
    if exact and _hash_is_key(segment, len(keys)):
        return needles, rows
    return _same_keys(run, hashes, keys, needles, rows, row_order)


def _hash_is_key(segment: Segment, keys: int) -> bool:
    """Return what `hash_is_key` says of the keys of a segment, asked once per process."""
    known: bool | None = segment.memo.get("hash is key")
    if known is None:
        columns = [segment.column(i) for i in range(keys)]
        known = segment.memo["hash is key"] = hash_is_key(columns)
    return known


def _among(
    segment: Segment,
    needles: IntArray,
    first: IntArray,
    last: IntArray,
    *,
    among: IntArray,
    row_order: RowOrder,
    keys: int,
) -> tuple[IntArray, IntArray]:
    """Find the first row with each needle's hash and row order key, bisecting for all needles at once.

    first, last: range [first, last) of rows with each needle's hash. Returns the needles found, and their rows.
    """
    wanted = among[needles]
    low = bisect(segment, first, last, wanted, row_order=row_order, keys=keys)
    inside = np.flatnonzero(low < last)
    found = inside[_orders(segment, low[inside], row_order, keys) == wanted[inside]]
    return needles[found], low[found]


def bisect(
    segment: Segment,
    first: IntArray,
    last: IntArray,
    wanted: IntArray,
    *,
    row_order: RowOrder,
    keys: int,
    after: bool = False,
) -> IntArray:
    """Return the first of the rows [first, last) of a hash whose row order key is at least the wanted one, or last.

    after: return the first one whose row order key is greater.
    """
    low, high = first.copy(), last.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        met = _orders(segment, middle, row_order, keys)
        below = met <= wanted[open_] if after else met < wanted[open_]
        low[open_[below]] = middle[below] + 1
        high[open_[~below]] = middle[~below]
        open_ = open_[low[open_] < high[open_]]
    return low


def _orders(segment: Segment, rows: IntArray, row_order: RowOrder, keys: int) -> IntArray:
    segment.touch(rows)
    orders = row_order([fast_take(segment.column(keys - 1), rows)])
    assert orders is not None  # noqa: S101 - the caller has checked that there is a row order key
    return orders


def _same_keys(
    run: OpenRun,
    hashes: HashArray,
    keys: Columns,
    needles: IntArray,
    rows: IntArray,
    row_order: RowOrder,
) -> tuple[IntArray, IntArray]:
    """Compare keys, not only hashes; a needle that shares its hash is compared with all rows that share it."""
    if not len(needles):
        return needles, rows
    segment = run.segment
    segment.touch(rows)
    stored = [fast_take(segment.column(i), rows) for i in range(len(keys))]
    alike = keys_equal(take(keys, needles), stored)
    if bool(alike.all()):
        return needles, rows
    more, at = _further(run, hashes, keys, needles[~alike], rows[~alike], row_order)
    needles, rows = np.concatenate([needles[alike], more]), np.concatenate([rows[alike], at])
    order = np.argsort(needles, kind="stable")
    return needles[order], rows[order]


def _further(
    run: OpenRun,
    hashes: HashArray,
    keys: Columns,
    needles: IntArray,
    rows: IntArray,
    row_order: RowOrder,
) -> tuple[IntArray, IntArray]:
    """Match needles whose first row has another key with the rows after it; each row is read once."""
    segment, width = run.segment, len(keys)
    last = segment.search(hashes[needles], run.clip, "right")
    among = row_order(keys)
    if among is not None:
        last = bisect(
            segment, rows, last, among[needles], row_order=row_order, keys=width, after=True
        )
    first, heads, owners = np.unique(rows, return_index=True, return_inverse=True)
    count = last[heads] - first
    places = ragged(first, count)
    segment.touch(places)
    stored = [fast_take(segment.column(i), places) for i in range(width)]
    found = partners(owners, take(keys, needles), np.repeat(np.arange(len(first)), count), stored)
    met = found >= 0
    return needles[found[met]], places[met]


def _without(needles: IntArray, gone: IntArray, count: int) -> IntArray:
    keep = np.zeros(count, dtype=np.bool_)
    keep[needles] = True
    keep[gone] = False
    return np.flatnonzero(keep)


@dataclass(frozen=True, eq=False)
class _Source:
    """Where the state of needles comes from: needle i at row `rows[i]` of the columns."""

    needles: IntArray
    rows: IntArray
    columns: Columns


def _source(hit: Hit, schema: pa.Schema, offset: int) -> _Source:
    segment, chain = hit.run.segment, hit.run.migrations
    if not chain:
        columns = [segment.column(offset + i) for i in range(len(schema))]
        return _Source(hit.needles, hit.rows, columns)
    stored = [segment.column(i) for i in range(len(segment.schema))]
    columns, gone = converted(chain, take(stored, hit.rows), origin=hit.run.origin)
    rows = np.arange(len(hit.rows), dtype=np.int64)
    if gone is None:
        return _Source(hit.needles, rows, columns[offset:])
    return _Source(hit.needles[~gone], rows[~gone], columns[offset:])


def _gather(sources: list[_Source], count: int, field: pa.Field, index: int) -> pa.Array:
    found = [(source, source.columns[index]) for source in sources]
    if is_plain(field.type) and all(column.null_count == 0 for _, column in found):
        values = np.zeros(count, dtype=field.type.to_pandas_dtype())
        for source, column in found:
            values[source.needles] = column.to_numpy(zero_copy_only=True)[source.rows]
        return from_numpy(values, field.type)
    pieces = [column.take(pa.array(source.rows)) for source, column in found]
    place = np.full(count, -1, dtype=np.int64)
    start = 0
    for source, _ in found:
        place[source.needles] = np.arange(start, start + len(source.needles))
        start += len(source.needles)
    if not pieces:
        return pa.nulls(count, field.type)
    column = joined(pieces).take(pa.array(place, mask=place < 0))
    return narrow(column, field.type)
