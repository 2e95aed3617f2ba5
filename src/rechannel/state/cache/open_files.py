"""A bounded cache of open files that evicts the least recently used entry, and entries of deleted
files.

A mapped file that was deleted occupies disk space for as long as it is mapped. So that the cache
does not hold space that was meant to be freed, it checks for dead entries every few insertions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SWEEP_EVERY = 64


class Lru(Generic[K, V]):
    """At most `capacity` entries. Safe to use from several threads."""

    def __init__(self, capacity: int) -> None:
        """Start empty."""
        self._capacity = capacity
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()
        self._inserted = 0

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return an entry and make it the most recent one."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def put(self, key: K, value: V, dead: Callable[[K, V], bool]) -> None:
        """Insert or replace an entry; every few calls, remove the entries for which `dead` returns
        true.
        """
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            if len(self._entries) > self._capacity:
                self._entries.popitem(last=False)
            self._inserted += 1
            due = self._inserted % _SWEEP_EVERY == 0
            suspects = list(self._entries.items()) if due else []
        for suspect, held in suspects:
            if dead(suspect, held):
                self.discard(suspect)

    def discard_all(self, which: Callable[[K], bool]) -> None:
        """Remove the entries whose keys are meant."""
        with self._lock:
            for key in [key for key in self._entries if which(key)]:
                del self._entries[key]

    def discard(self, key: K) -> None:
        """Remove an entry if it exists."""
        with self._lock:
            self._entries.pop(key, None)
