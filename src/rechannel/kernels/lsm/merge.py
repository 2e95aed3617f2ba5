"""Merge sorted runs: of rows with equal keys, the newest one stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rechannel.kernels.columnar.columns import Columns, uniform
from rechannel.kernels.columnar.concatenate import joined
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.lsm.lookup import OpenRun, RowOrder, unsorted
from rechannel.kernels.protocol.migrate import converted
from rechannel.model.buffers import Mask
from rechannel.model.hashspace import HashArray, Intervals


class Rows:
    """Sorted state rows in memory: hashes, key and state columns, and which rows are tombstones."""

    __slots__ = ("columns", "dropped", "hashes")

    def __init__(self, hashes: HashArray, columns: Columns, dropped: Mask | None) -> None:
        """Keep references to the arrays."""
        self.hashes = hashes
        self.columns = columns
        self.dropped = dropped

    def __len__(self) -> int:
        """Number of rows, tombstones included."""
        return len(self.hashes)

    def where(self, mask: Mask) -> Rows:
        """Return the rows at which a mask is True."""
        if bool(mask.all()):
            return self
        index = np.flatnonzero(mask)
        dropped = None if self.dropped is None else self.dropped[index]
        return Rows(self.hashes[index], take(self.columns, index), dropped)


Live = Callable[[Columns, Columns], Mask | None]
"""Returns which rows still count, from their key and state columns; None means all."""


def everything(keys: Columns, state: Columns) -> None:
    """Return None: all rows count. This is a `Live`."""


def slices_of(run: OpenRun, where: Intervals) -> list[Rows]:
    """Return the rows of a run in hash intervals, and verify the blocks that are read.

    Only rows that have to be migrated are copied.
    """
    segment = run.segment
    all_dropped = segment.dropped
    out = []
    for piece in segment.slices(run.clip.intersect(where)):
        segment.touch(piece)
        columns = [
            segment.column(i).slice(piece.start, piece.stop - piece.start)
            for i in range(len(segment.schema))
        ]
        dropped = None if all_dropped is None else all_dropped[piece]
        if run.migrations:
            columns, dropped = converted(run.migrations, columns, dropped, origin=run.origin)
        out.append(Rows(segment.hashes[piece], columns, dropped))
    return out


def merge_rows(
    parts: Sequence[Rows],
    keys: int,
    live: Live,
    *,
    bottom: bool,
    row_order: RowOrder = unsorted,
    once: bool = False,
) -> Rows:
    """Merge parts, given newest first, into one sorted run; of equal keys the row of the first part stays.

    keys: number of key columns. bottom: no older rows remain, so tombstones and rows that do not count are dropped.
    row_order: row order key within one hash. once: see `WrittenOnce`.
    """
    hashes = np.concatenate([part.hashes for part in parts])
    columns = [joined([part.columns[i] for part in parts]) for i in range(len(parts[0].columns))]
    dropped = _concat_dropped(parts)
    among = row_order(columns[:keys])
    if among is not None and bool((among == among[:1]).all()):
        among = None  # rows of one hash are not sorted further
    order = np.argsort(hashes, kind="stable") if among is None else sort_index(hashes, among)
    ordered = hashes[order]
    among = None if among is None else among[order]
    # A column in which all rows are alike tells no rows apart.
    telling = [columns[i] for i in range(keys) if i == 0 or not uniform(columns[i])]
    groups, untangled = group_rows(ordered, telling, among, order=order)
    if untangled is not None:
        order = order[untangled]
    keep = order[groups.starts]
    if bottom:
        if dropped is not None:
            keep = keep[~dropped[keep]]
        alive = live(columns[:keys], columns[keys:])
        keep = keep if alive is None else keep[alive[keep]]
        dropped = None
    elif once:
        if dropped is not None:
            keep = keep[~(dropped[keep] & (groups.sizes > 1))]
        alive = live(columns[:keys], columns[keys:])
        keep = keep if alive is None else keep[alive[keep]]
    return Rows(
        hashes[keep], take(columns, keep), None if dropped is None else _some(dropped[keep])
    )


def _concat_dropped(parts: Sequence[Rows]) -> Mask | None:
    if all(part.dropped is None for part in parts):
        return None
    return np.concatenate(
        [
            np.zeros(len(part), dtype=np.bool_) if part.dropped is None else part.dropped
            for part in parts
        ]
    )


def _some(mask: Mask) -> Mask | None:
    return mask if bool(mask.any()) else None
