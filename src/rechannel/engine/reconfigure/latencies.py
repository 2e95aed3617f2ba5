"""How long timesteps took, for as many as a change may last: sixteen bytes each."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

KEPT = 1 << 17
"""Least number of timesteps that are kept: a change may take one per bin, with pauses between them."""


class Latencies:
    """Milliseconds from the decision of a timestep to its commit. One thread adds, any thread may read."""

    def __init__(self, known: Iterable[tuple[int, float]] = (), kept: int = KEPT) -> None:
        """known: (timestep, ms), ascending."""
        self._kept = kept
        self._values = array("d")
        self._lock = threading.Lock()
        for timestep, ms in known:
            self.add(timestep, ms)

    def add(self, timestep: int, ms: float) -> None:
        """Add the next committed timestep."""
        with self._lock:
            self._values.extend((timestep, ms))
            if len(self._values) >= 4 * self._kept:
                del self._values[: 2 * self._kept]

    def between(self, first: int, last: int) -> npt.NDArray[np.float64]:
        """Milliseconds of the timesteps from `first` to `last`, both included, as far as they are kept."""
        with self._lock:
            places = range(len(self._values) // 2)
            begin, end = (
                bisect_left(places, edge, key=lambda place: int(self._values[2 * place]))
                for edge in (first, last + 1)
            )
            return np.array(self._values[2 * begin : 2 * end])[1::2]
