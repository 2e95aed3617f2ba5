"""Memory that allocators hold free, given back to the system once in a while.

An allocator keeps what a large timestep needed, and each thread has its own share of it: in a driver with some seventy
threads, that grows for hours, though nothing is alive.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache

import pyarrow as pa

EVERY_S = 60.0
"""A large timestep finds what the one before it needed, if it comes sooner."""


def of_this_thread() -> None:
    """Give back what Arrow holds free for the thread that calls this. It takes some 40 microseconds."""
    pa.default_memory_pool().release_unused()


def of_the_c_library() -> None:
    """Give back what glibc holds free, of all threads, in a few milliseconds. Other C libraries are left alone."""
    trim = _trim()
    if trim is not None:
        trim(0)


class SpareMemory:
    """Gives memory back at most once in `EVERY_S`."""

    def __init__(
        self, give_back: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """give_back: one of the functions above. clock: in seconds; only differences count."""
        self._give_back, self._clock, self._last = give_back, clock, clock()

    def give_back(self) -> None:
        """Give it back, if it is time."""
        if self._clock() - self._last >= EVERY_S:
            self._last = self._clock()
            self._give_back()


@cache
def _trim() -> Callable[[int], int] | None:
    """Return `malloc_trim` of glibc; None elsewhere."""
    try:
        found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):
        return None
    return found
