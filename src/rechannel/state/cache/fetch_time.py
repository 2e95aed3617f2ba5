"""How many bytes this thread has fetched remotely, and how long that took.

Fetching happens deep inside a task's work (a look-up, a merge), so a task reads the counters
before and after. They are per thread, because tasks of one process may run in its threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Totals of a thread."""

    bytes: int = 0
    """Bytes fetched."""
    ms: float = 0.0
    """Time spent, including writing to the cache."""
    requests: int = 0
    """Requests made."""

    def since(self, before: Fetched) -> Fetched:
        """Return the difference to an earlier total."""
        return Fetched(
            bytes=self.bytes - before.bytes,
            ms=self.ms - before.ms,
            requests=self.requests - before.requests,
        )


class _Tally(threading.local):
    now = Fetched()


_tally = _Tally()


def fetched() -> Fetched:
    """Return what this thread has fetched so far."""
    return _tally.now


@contextmanager
def fetching(size: int) -> Iterator[None]:
    """Count a request of `size` bytes and the duration of the block; nothing if it raises."""
    start = time.perf_counter()
    yield
    now = _tally.now
    _tally.now = Fetched(
        bytes=now.bytes + size,
        ms=now.ms + (time.perf_counter() - start) * 1e3,
        requests=now.requests + 1,
    )
