"""Cut a task's hashes into parts, so that what it has in memory at once stays within a budget.

A stateful task does everything key by key, and all rows of a key have one hash. So a task that received more than its
budget proceeds like several tasks in turn: each owns a part of the hashes, reads the rows there, and writes a run for
them. Rows arrive in blobs sorted by hash: a part of a blob is a slice of it.

A part costs what arrived, the state of its keys, and what waits there for event time. The first is known exactly; the
others are estimated from the runs. If keys have several state rows and all of them could be too many, they are counted
(`Footprint`). A part has at least one hash: all rows of a key are in memory at once.

A spread bin, which the task shares with others, is a part of its own, whichever task owns it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.lsm.footprint import Footprint, Met
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.protocol.program import TaskState
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.send import wire_schema
from rechannel.kernels.shuffle.spool import Spool
from rechannel.kernels.shuffle.wire import Blob
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, HashArray, Intervals
from rechannel.model.spread import Share
from rechannel.state.manifest import Manifest
from rechannel.state.run import Run

SHARE = 8
"""Rows of a part take this fraction (1/8) of a task's memory: they are there as received, as sorted, and as results."""

MOST_PARTS = 4096
SAMPLE = 256
"""One in this many hashes is a candidate for a cut."""

_AT_ONCE = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of a task."""

    state: TaskState
    """Its hashes, and the state of their keys."""
    blobs: list[Blob]
    """Blobs with rows of these hashes."""
    rows: list[slice] | None = None
    """Which rows of each blob; None = all."""
    whole: bool = True
    """Whether it is all of the task."""
    share: Share | None = None
    """The task's part in the spread bin that the hashes are of; None = the hashes are of none."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a task has to handle in a timestep."""

    size: int
    """Bytes that arrived."""
    rows: int
    """Rows that arrived."""
    old: float = 0.0
    """Estimated bytes of state per row that arrived."""
    waiting: float = 0.0
    """Bytes of state that may be emitted in this timestep."""
    most: float = 0.0
    """Bytes of all state of the task."""
    stored: Footprint | None = None
    """State of the keys that arrived, if it was counted; None = `old` estimates it."""

    @classmethod
    def of(cls, blobs: Sequence[Blob], runs: Sequence[Run], waiting: float) -> Demand:
        """Estimate the demand. runs: where the state of keys is looked up. waiting: state rows that may be emitted."""
        stored = sum(run.rows for run in runs)
        width = sum(run.size for run in runs) / stored if stored else 0.0
        rows = sum(blob.rows for blob in blobs)
        most = sum(run.size * run.expected / run.rows for run in runs if run.rows)
        return cls(
            size=sum(blob.message.size for blob in blobs),
            rows=rows,
            old=min(width, most / rows) if rows else 0.0,
            waiting=waiting * width,
            most=most,
        )

    def counted(self, memory: int) -> bool:
        """Whether the state of keys with several rows must be counted, since all of it may be too much."""
        return self.most > 0 and self.size + self.most + self.waiting > memory // SHARE

    def parts(self, memory: int) -> int:
        """Return the number of parts that stay within `memory` bytes."""
        known = self.rows * self.old if self.stored is None else self.stored.total
        total = self.size + known + self.waiting
        return min(MOST_PARTS, max(1, math.ceil(total / max(1, memory // SHARE))))


def parts_of(
    state: TaskState,
    can: Capabilities,
    blobs: list[Blob],
    demand: Demand,
    memory: int,
    spool: Spool,
    *,
    runs: Sequence[OpenRun],
) -> Iterator[Part]:
    """Yield the parts of a task, by hash.

    spool: holds what must not be in memory. runs: the state of the task, opened on first access.
    """
    hashes: list[HashArray] | None = None
    if can.several_rows is not None and blobs and demand.counted(memory):
        hashes = _hashes_of(can, blobs, spool)
        demand = replace(demand, stored=Footprint.at(can, runs, _met(can, blobs, hashes, spool)))
    count = demand.parts(memory)
    if count == 1 and not state.shared:
        yield Part(state=state, blobs=blobs)
        return
    if hashes is None:
        hashes = _hashes_of(can, blobs, spool)
    known = state.own.union(Intervals.of(span for one in state.shared for span in one.own))
    borders = [0, SPACE] if count == 1 else _borders(known, blobs, hashes, demand, count)
    yield from _cut(state, blobs, hashes, borders, spool)


def _cut(
    state: TaskState,
    blobs: list[Blob],
    hashes: list[HashArray],
    borders: list[int],
    spool: Spool,
) -> Iterator[Part]:
    """Yield one part for each stretch of hashes, and one for each spread bin in it.

    hashes: of the rows of every blob, ascending.
    """
    shared = state.shared
    edges = sorted({*borders, *(end for one in shared for span in one.own for end in span)})
    inner = np.array(edges[1:-1], dtype=np.uint64)
    cuts = [[0, *np.searchsorted(known, inner).tolist(), len(known)] for known in hashes]
    place = {edge: number for number, edge in enumerate(edges)}
    alone = state.own.subtract(Intervals.of(span for one in shared for span in one.own))
    for lo, hi in pairwise(borders):
        within = Intervals.of([(lo, hi)])
        left = list(range(place[lo], place[hi]))
        for one in shared:
            own = one.own.intersect(within)
            if own:
                here = [n for n in left if any(a <= edges[n] < b for a, b in own)]
                left = [n for n in left if n not in here]
                known = replace(state, runs=one.runs, totals=())
                yield _part(known, own, blobs, cuts, here, share=one.share)
                spool.release()
        own = alone.intersect(within)
        if own:
            yield _part(state, own, blobs, cuts, left)
            spool.release()


def _part(
    state: TaskState,
    own: Intervals,
    blobs: list[Blob],
    cuts: list[list[int]],
    stretches: list[int],
    *,
    share: Share | None = None,
) -> Part:
    """Return the part with some hashes. cuts: where stretches begin and end in every blob. stretches: which ones."""
    met = [
        (blob, slice(cut[number], cut[number + 1]))
        for blob, cut in zip(blobs, cuts, strict=True)
        for number in stretches
        if cut[number] < cut[number + 1]
    ]
    return Part(
        state=replace(
            state,
            own=own,
            runs=Manifest(state.runs).within(own),
            totals=Manifest(state.totals).totals(own),
        ),
        blobs=[blob for blob, _ in met],
        rows=[rows for _, rows in met],
        whole=False,
        share=share,
    )


def _hashes_of(can: Capabilities, blobs: list[Blob], spool: Spool) -> list[HashArray]:
    """Return the hashes of the rows of each blob. They are on disk if blobs are."""
    found: list[HashArray] = []
    places = []
    batch: list[Blob] = []
    size = 0
    for number, blob in enumerate(blobs):
        batch.append(blob)
        size += blob.message.size
        if size < _AT_ONCE and number + 1 < len(blobs):
            continue
        for hashes in _hashed(can, batch):
            if spool.size:
                places.append(spool.write(hashes))
            else:
                found.append(hashes)
        batch, size = [], 0
        spool.release()
    return [np.frombuffer(b, np.uint64) for b in spool.read(places)] if places else found


def _hashed(can: Capabilities, blobs: list[Blob]) -> Iterator[HashArray]:
    schema = wire_schema(can, combined=blobs[0].combined)
    for blob in blobs:
        batch = pa.ipc.read_record_batch(blob.message, schema)
        yield hash_columns([batch.column(i) for i in range(can.hashed)])


def _met(can: Capabilities, blobs: list[Blob], hashes: list[HashArray], spool: Spool) -> Met:
    """Return the distinct hashes of all blobs, and which state `apply` reads for them."""
    schema = wire_schema(can, combined=blobs[0].combined)
    met: list[Met] = []
    size = 0
    for blob, known in zip(blobs, hashes, strict=True):
        batch = pa.ipc.read_record_batch(blob.message, schema)
        met.append(Met.of(can, known, batch.columns[can.sent :]))
        size += blob.message.size
        if size >= _AT_ONCE:
            met, size = [Met.joined(met)], 0
            spool.release()
    return Met.joined(met)


def _borders(
    own: Intervals, blobs: list[Blob], hashes: list[HashArray], demand: Demand, count: int
) -> list[int]:
    """Return the hashes at which to cut, from 0 to the end of the space, so that all parts weigh about the same."""
    points = [known[::SAMPLE] for known in hashes]
    old = demand.old if demand.stored is None else 0.0
    weights = [
        np.full(len(some), (blob.message.size + len(known) * old) / max(1, len(some)))
        for blob, known, some in zip(blobs, hashes, points, strict=True)
    ]
    if demand.stored is not None:
        steps, sizes = demand.stored.steps(demand.stored.total / (8 * count))
        points.append(steps)
        weights.append(sizes)
    if demand.waiting:
        even = _spread(own, 16 * count)
        points.append(even)
        weights.append(np.full(len(even), demand.waiting / len(even)))
    at, weight = np.concatenate(points), np.concatenate(weights)
    order = np.argsort(at, kind="stable")
    total: npt.NDArray[np.float64] = np.cumsum(weight[order])
    wanted = total[-1] * np.arange(1, count) / count
    inner = at[order][np.searchsorted(total, wanted)]
    return [0, *(border for border in np.unique(inner).tolist() if border), SPACE]


def _spread(own: Intervals, count: int) -> HashArray:
    """Return hashes that are spread evenly over intervals."""
    steps = [max(1, count * (hi - lo) // own.width) for lo, hi in own]
    return np.array(
        [lo + (hi - lo) * i // n for (lo, hi), n in zip(own, steps, strict=True) for i in range(n)],
        dtype=np.uint64,
    )
