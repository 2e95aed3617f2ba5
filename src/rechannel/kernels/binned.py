"""Rows per bin of what a task received, as its report tells them."""

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


def unpack_bins(text: str) -> npt.NDArray[np.uint32]:
    """Invert `pack_bins`: rows per bin. Shape (bins,)."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u4")
