"""Events on their way to a reader that may be slow: bounded, and the oldest give way."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Lock

from rechannel.telemetry.events import Event, weight_of
from rechannel.telemetry.recent_events import MOST_EVENTS


class Feed:
    """Keeps events until its reader takes them. Any thread may tell, one takes."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        """most: events that may wait, as `weight_of` counts them."""
        self._waiting: deque[Event] = deque()
        self._most, self._count, self._missed = most, 0, 0
        self._lock = Lock()

    def see(self, events: Sequence[Event]) -> None:
        """Keep events, in the order in which they happened."""
        with self._lock:
            self._waiting.extend(events)
            self._count += weight_of(events)
            while self._count > self._most and len(self._waiting) > 1:
                self._count -= weight_of([self._waiting.popleft()])
                self._missed += 1

    def take(self) -> tuple[tuple[Event, ...], int]:
        """Return what waits, oldest first, and how many events before it were not kept."""
        with self._lock:
            taken, missed = tuple(self._waiting), self._missed
            self._waiting.clear()
            self._count = self._missed = 0
        return taken, missed
