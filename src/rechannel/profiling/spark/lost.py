"""Tasks that had succeeded, and whose output was lost with its executor: eight bytes each."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt


class LostTasks:
    """Collects numbers of tasks, and finds them among others."""

    def __init__(self) -> None:
        self._told = array("q")
        self._known: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def add(self, number: int) -> None:
        """Note a task; it may be noted again."""
        self._told.append(number)

    def among(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of some tasks were lost."""
        if self._told:
            self._known = np.union1d(self._known, np.frombuffer(self._told, dtype=np.int64))
            self._told = array("q")
        if not len(self._known):
            return np.zeros(len(numbers), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._known, numbers), len(self._known) - 1)
        found: npt.NDArray[np.bool_] = self._known[at] == numbers
        return found
