"""Find the state of keys: point look-ups of sorted hashes in sorted, memory-mapped runs, newest run first.

Cost follows the keys asked for, not the rows stored: a needle is searched only in runs that may hold it (`sieve`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import joined, narrow
from rechannel.kernels.columnar.groups import IntArray
from rechannel.kernels.columnar.sorting import fast_take, from_numpy, is_plain, take
from rechannel.kernels.lsm.hash_filter import candidates
from rechannel.kernels.protocol.migrate import Chain, converted
from rechannel.model.buffers import ragged
from rechannel.model.hashing import hash_is_key, keys_equal
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.model.keyorder import partners
from rechannel.state.segments.segment import Segment


@dataclass(frozen=True, eq=False)
class OpenRun:
    """A run with its segment opened.

    base: it holds everything older, so most needles that get to it are found. migrations: how its state columns are
    read today; empty where they are those of the running logic.
    """

    segment: Segment
    clip: Intervals
    base: bool = False
    migrations: Chain = ()

    @property
    def origin(self) -> str:
        """What messages call its rows."""
        return f"operator {self.segment.meta.operator!r}, segment {self.segment.key}"


@dataclass(frozen=True, eq=False)
class Hit:
    """Needles (ascending) that one run answers, and at which of its rows."""

    run: OpenRun
    needles: IntArray
    rows: IntArray


Minor = Callable[[Columns], IntArray | None]
"""What rows of one hash are sorted by: a number that follows from the last key column; None = nothing."""


def no_minor(keys: Columns) -> None:
    """Keys of one hash are rare."""


def find(
    runs: Sequence[OpenRun], hashes: HashArray, keys: Columns, minor: Minor = no_minor
) -> list[Hit]:
    """The newest row of every key, tombstones included. Needles are ascending and distinct as keys."""
    hits: list[Hit] = []
    open_needles = np.arange(len(hashes), dtype=np.int64)
    exact = hash_is_key(keys)
    for run in runs:
        if len(open_needles) == 0:
            break
        wanted = within(run, hashes, open_needles)
        if len(wanted) == 0:
            continue
        needles, rows = _search(run, hashes, keys, wanted, minor, exact=exact)
        if len(needles):
            run.segment.touch(rows)
            hits.append(Hit(run, needles, rows))
            open_needles = _without(open_needles, needles, len(hashes))
    return hits


def gather(
    hits: list[Hit], count: int, schema: pa.Schema, offset: int
) -> tuple[Columns, npt.NDArray[np.bool_]]:
    """State columns of every needle, and whether it has live state (tombstones do not count).

    offset: position of the first state column in a segment's columns (behind the keys).
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
    """Needles whose hash lies in the run's clip and may be in the segment."""
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
    minor: Minor,
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
    among = minor(keys)
    if among is not None:
        last = segment.search(asked, run.clip, "right")
        needles, rows = _among(
            segment, needles, rows, last, among=among, minor=minor, keys=len(keys)
        )
        return _same_keys(run, hashes, keys, needles, rows, minor)
    inside = np.minimum(rows, segment.rows - 1)
    match = segment.hashes[inside] == asked
    needles, rows = needles[match], rows[match]
    if exact and hash_is_key([segment.column(i) for i in range(len(keys))]):
        return needles, rows
    return _same_keys(run, hashes, keys, needles, rows, minor)


def _among(
    segment: Segment,
    needles: IntArray,
    first: IntArray,
    last: IntArray,
    *,
    among: IntArray,
    minor: Minor,
    keys: int,
) -> tuple[IntArray, IntArray]:
    """The first row of every needle's hash that has its minor, bisecting all of them at once; needles that have one.

    first, last: rows of each needle's hash.
    """
    wanted = among[needles]
    low = bisect(segment, first, last, wanted, minor=minor, keys=keys)
    inside = np.flatnonzero(low < last)
    found = inside[_minors(segment, low[inside], minor, keys) == wanted[inside]]
    return needles[found], low[found]


def bisect(
    segment: Segment,
    first: IntArray,
    last: IntArray,
    wanted: IntArray,
    *,
    minor: Minor,
    keys: int,
    after: bool = False,
) -> IntArray:
    """The first of the rows [first, last) of a hash whose minor is not below the wanted one, or last.

    after: the first one whose minor is above it.
    """
    low, high = first.copy(), last.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        met = _minors(segment, middle, minor, keys)
        below = met <= wanted[open_] if after else met < wanted[open_]
        low[open_[below]] = middle[below] + 1
        high[open_[~below]] = middle[~below]
        open_ = open_[low[open_] < high[open_]]
    return low


def _minors(segment: Segment, rows: IntArray, minor: Minor, keys: int) -> IntArray:
    segment.touch(rows)
    minors = minor([fast_take(segment.column(keys - 1), rows)])
    assert minors is not None  # noqa: S101 - it has told some before
    return minors


def _same_keys(
    run: OpenRun, hashes: HashArray, keys: Columns, needles: IntArray, rows: IntArray, minor: Minor
) -> tuple[IntArray, IntArray]:
    """Compare keys, not only hashes; a needle that shares its hash looks at all rows of that hash (and minor)."""
    if not len(needles):
        return needles, rows
    segment = run.segment
    segment.touch(rows)
    stored = [fast_take(segment.column(i), rows) for i in range(len(keys))]
    alike = keys_equal(take(keys, needles), stored)
    if bool(alike.all()):
        return needles, rows
    more, at = _further(run, hashes, keys, needles[~alike], rows[~alike], minor)
    needles, rows = np.concatenate([needles[alike], more]), np.concatenate([rows[alike], at])
    order = np.argsort(needles, kind="stable")
    return needles[order], rows[order]


def _further(
    run: OpenRun, hashes: HashArray, keys: Columns, needles: IntArray, rows: IntArray, minor: Minor
) -> tuple[IntArray, IntArray]:
    """Needles whose key is not that of their first row, found among the further ones: each of those is read once."""
    segment, width = run.segment, len(keys)
    last = segment.search(hashes[needles], run.clip, "right")
    among = minor(keys)
    if among is not None:
        last = bisect(segment, rows, last, among[needles], minor=minor, keys=width, after=True)
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
    """Where state comes from: needle i has its state columns at row i of `rows`."""

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
