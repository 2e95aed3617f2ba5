"""A bounded cache of open files that evicts the least recently used entry, and entries of deleted
files.

A mapped file that was deleted occupies disk space for as long as it is mapped. So that the cache
does not hold space that was meant to be freed, it checks for dead entries every few insertions. An
entry that was not used for minutes goes with the next insertion: what a driver has looked at
once would keep its descriptors for ever.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SWEEP_EVERY = 64

IDLE_S = 300.0
"""Seconds after which an entry that was not used goes."""


class Lru(Generic[K, V]):
    """At most `capacity` entries. Safe to use from several threads."""

    def __init__(self, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty. clock: seconds."""
        self._capacity, self._clock = capacity, clock
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()
        """Values, and when each was used last; the one that was used longest ago is the first."""
        self._lock = Lock()
        self._inserted = 0

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return an entry and make it the most recent one."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._use(key, found[0])
            return found[0]

    def put(self, key: K, value: V, dead: Callable[[K, V], bool]) -> None:
        """Insert or replace an entry; every few calls, remove the entries for which `dead` returns
        true.
        """
        with self._lock:
            self._use(key, value)
            self._make_room()
            self._inserted += 1
            due = self._inserted % _SWEEP_EVERY == 0
            suspects = list(self._entries.items()) if due else []
        for suspect, (held, _) in suspects:
            if dead(suspect, held):
                self.discard(suspect)

    def _use(self, key: K, value: V) -> None:
        self._entries[key] = value, self._clock()
        self._entries.move_to_end(key)

    def _make_room(self) -> None:
        idle = self._clock() - IDLE_S
        while len(self._entries) > self._capacity or next(iter(self._entries.values()))[1] < idle:
            self._entries.popitem(last=False)

    def discard_all(self, which: Callable[[K], bool]) -> None:
        """Remove the entries whose keys are meant."""
        with self._lock:
            for key in [key for key in self._entries if which(key)]:
                del self._entries[key]

    def discard(self, key: K) -> None:
        """Remove an entry if it exists."""
        with self._lock:
            self._entries.pop(key, None)
