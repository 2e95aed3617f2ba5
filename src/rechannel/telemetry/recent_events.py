"""The events of the last timesteps, in the order in which they came: what a profile of a running job is made of. Pure.

Nothing is computed here: a timestep costs a reference to each of its events. They are let go in the order in which
they came, a committed timestep at a time. Events of a later timestep that was in flight meanwhile may go with it; a
profile leaves out the timesteps that are not whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rechannel.telemetry.events import Event, TimestepCommitted, weight_of

MOST_TIMESTEPS = 40
MOST_EVENTS = 20_000
"""Bound on the events that are kept, mostly one for each task: some ten MB. The latest timestep always is. One event of
many tasks counts as many."""


class RecentEvents:
    """Keeps the events of the last timesteps. One thread tells, any may read."""

    def __init__(self, *, timesteps: int = MOST_TIMESTEPS, events: int = MOST_EVENTS) -> None:
        """timesteps, events: how many are kept."""
        self._timesteps, self._events = timesteps, events
        self._kept: deque[tuple[Event, ...]] = deque()
        self._count = 0
        self._open: list[Event] = []
        self._recent: tuple[tuple[Event, ...], ...] = ()

    def recent(self, timesteps: int = MOST_TIMESTEPS) -> tuple[Event, ...]:
        """Return the events between the commits of the last timesteps, oldest first. timesteps: how many at most."""
        return tuple(event for each in self._recent[-timesteps:] for event in each)

    def see(self, events: Iterable[Event]) -> None:
        """Keep events, in the order in which they happened."""
        committed = False
        for event in events:
            self._open.append(event)
            if isinstance(event, TimestepCommitted):
                self._close()
                committed = True
        if committed:
            self._recent = tuple(self._kept)
        if len(self._open) > self._events:  # timesteps that fail again and again
            del self._open[: -self._events // 2]

    def _close(self) -> None:
        self._kept.append(tuple(self._open))
        self._count += weight_of(self._open)
        self._open.clear()
        while len(self._kept) > 1 and (
            len(self._kept) > self._timesteps or self._count > self._events
        ):
            self._count -= weight_of(self._kept.popleft())
