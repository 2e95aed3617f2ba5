"""Rows per bin of what a task received, and its hottest keys, as its report tells them."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import numpy.typing as npt

from rechannel.kernels.receive import Received
from rechannel.model.routing import Routing


def pack_bins(routing: Routing | None, received: Received) -> str | None:
    """Rows per bin of what was received, compressed; None when all rows are in one bin's worth of routing."""
    if routing is None or received.rows == 0:
        return None
    rows = np.diff(received.groups.starts, append=received.groups.rows)
    edges = np.searchsorted(received.hashes, routing.edges)
    total = np.concatenate(([0], np.cumsum(rows)))
    per_bin = np.diff(np.append(total[edges], total[-1])).astype("<u4")
    return base64.b64encode(zlib.compress(per_bin.tobytes(), 1)).decode()


HOT = 16
"""Of all rows of a task, a hot key has at least this part."""


def hottest(received: Received) -> list[list[int]]:
    """(hash, rows) of the keys that have more than a sixteenth of a task's rows: fewer than 16."""
    groups = received.groups
    hot = np.flatnonzero(groups.sizes * HOT > groups.rows)
    return [[int(received.hashes[i]), int(groups.sizes[i])] for i in hot]


def unpack_bins(text: str) -> npt.NDArray[np.uint32]:
    """Invert `pack_bins`: rows per bin. Shape (bins,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u4")
