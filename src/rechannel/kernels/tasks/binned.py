"""Rows per bin and hot keys among the rows that a task received, for its report."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rechannel.kernels.shuffle.receive import Received
from rechannel.kernels.tasks.report import HotKey
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.state.run import Run

Counts = npt.NDArray[np.int64]


def rows_per_bin(routing: Routing | None, received: Received) -> Counts | None:
    """Return the rows received per bin; None without rows or bins."""
    if routing is None or received.rows == 0:
        return None
    rows = np.diff(received.groups.starts, append=received.groups.rows)
    edges = np.searchsorted(received.hashes, routing.edges)
    total = np.concatenate(([0], np.cumsum(rows)))
    return np.diff(np.append(total[edges], total[-1]))


def pack_bins(per_bin: Counts | None) -> str | None:
    """Compress rows per bin to text."""
    if per_bin is None:
        return None
    return base64.b64encode(zlib.compress(per_bin.astype("<u4").tobytes(), 1)).decode()


def bytes_per_bin(runs: Iterable[Run], routing: Routing) -> tuple[float, ...]:
    """Expected bytes of state in every bin, shape (bins,): the rows of a run are spread evenly over its span."""
    spans = [(run, lo, hi) for run in runs if run.span for lo, hi in run.clip]
    lo = np.array([lo for _, lo, _ in spans], dtype=np.uint64)
    # The last hash, not the one after it: that may be no number of 64 bits.
    last = np.array([hi - 1 for _, _, hi in spans], dtype=np.uint64)
    density = np.array([run.size / run.span for run, _, _ in spans], dtype=np.float64)
    starts = np.array(routing.starts, dtype=np.uint64)
    ends = np.array([end - 1 for end in (*routing.starts[1:], SPACE)], dtype=np.uint64)
    first = np.searchsorted(starts, lo, side="right") - 1
    counts = np.searchsorted(starts, last, side="right") - first
    # A pair for every bin that a span meets.
    which = np.repeat(np.arange(len(spans)), counts)
    bins = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts - first, counts)
    width = np.minimum(ends[bins], last[which]) - np.maximum(starts[bins], lo[which])
    total = np.bincount(bins, (width.astype(np.float64) + 1) * density[which], routing.bins)
    return tuple(total.tolist())


HOT = 16
"""A hot key has more than one row in this many of a task's rows."""


def hottest(received: Received, rows: int) -> list[HotKey]:
    """Return the keys that have more than a sixteenth of a task's rows: fewer than 16."""
    groups = received.groups
    hot = np.flatnonzero(groups.sizes * HOT > rows)
    return [HotKey(hash=int(received.hashes[i]), rows=int(groups.sizes[i])) for i in hot]


def unpack_bins(text: str) -> npt.NDArray[np.uint32]:
    """Invert `pack_bins`: return rows per bin, shape (bins,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u4")
