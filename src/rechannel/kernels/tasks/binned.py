"""Rows per bin of what a task received, and its hottest keys, as its report tells them."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import numpy.typing as npt

from rechannel.kernels.shuffle.receive import Received
from rechannel.kernels.tasks.report import HotKey
from rechannel.model.routing import Routing

Counts = npt.NDArray[np.int64]


def rows_per_bin(routing: Routing | None, received: Received) -> Counts | None:
    """Rows per bin of what was received; None when there are no rows, or no bins."""
    if routing is None or received.rows == 0:
        return None
    rows = np.diff(received.groups.starts, append=received.groups.rows)
    edges = np.searchsorted(received.hashes, routing.edges)
    total = np.concatenate(([0], np.cumsum(rows)))
    return np.diff(np.append(total[edges], total[-1]))


def pack_bins(per_bin: Counts | None) -> str | None:
    """Rows per bin, compressed."""
    if per_bin is None:
        return None
    return base64.b64encode(zlib.compress(per_bin.astype("<u4").tobytes(), 1)).decode()


HOT = 16
"""Of all rows of a task, a hot key has at least this part."""


def hottest(received: Received, rows: int) -> list[HotKey]:
    """The keys that have more than a sixteenth of a task's rows: fewer than 16."""
    groups = received.groups
    hot = np.flatnonzero(groups.sizes * HOT > rows)
    return [HotKey(hash=int(received.hashes[i]), rows=int(groups.sizes[i])) for i in hot]


def unpack_bins(text: str) -> npt.NDArray[np.uint32]:
    """Invert `pack_bins`: rows per bin. Shape (bins,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u4")
