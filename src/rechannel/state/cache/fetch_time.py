"""How many bytes this thread has fetched from afar, and how long that took.

A task fetches deep inside of what it does (a look-up, a merge), so it reads the tally before and
after. Per thread, because tasks of one process may run in threads of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """bytes: fetched. ms: spent on it, the writing into the cache included. requests: made."""

    bytes: int = 0
    ms: float = 0.0
    requests: int = 0

    def since(self, before: Fetched) -> Fetched:
        """What was added after `before`."""
        return Fetched(
            bytes=self.bytes - before.bytes,
            ms=self.ms - before.ms,
            requests=self.requests - before.requests,
        )


class _Tally(threading.local):
    now = Fetched()


_tally = _Tally()


def fetched() -> Fetched:
    """What this thread has fetched since it began."""
    return _tally.now


@contextmanager
def fetching(size: int) -> Iterator[None]:
    """Count a request of `size` bytes and the time of the block; nothing if it raises."""
    start = time.perf_counter()
    yield
    now = _tally.now
    _tally.now = Fetched(
        bytes=now.bytes + size,
        ms=now.ms + (time.perf_counter() - start) * 1e3,
        requests=now.requests + 1,
    )
