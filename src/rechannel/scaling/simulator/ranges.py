"""What each timestep reads: everything that has arrived by its beginning, up to a limit. Times are milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rechannel.scaling.simulator.backlog import Backlog
from rechannel.scaling.simulator.dataflow import Source

AHEAD = 64
"""Intervals whose arrivals are computed at a time, for timesteps that begin when they should."""
NEAR_MS = 1e-6


class Ranges:
    """Hands out ranges of rows in order."""

    def __init__(self, sources: Mapping[str, Source], interval_ms: float) -> None:
        """Begin at time 0 with nothing."""
        self._sources, self._interval_ms = sources, interval_ms
        self._backlogs = {name: Backlog() for name in sources}
        self._now_ms = 0.0
        self._look_ahead()

    def read(self, now_ms: float) -> tuple[dict[str, float], float]:
        """Return the rows that a timestep reads from each source, and since when the oldest has been waiting."""
        arrived = self._arrived(now_ms)
        rows, oldest = {}, now_ms
        for name, source in self._sources.items():
            backlog = self._backlogs[name]
            backlog.add(self._now_ms / 1e3, now_ms / 1e3, arrived[name])
            oldest = min(oldest, now_ms - 1e3 * backlog.age_s(now_ms / 1e3))
            rows[name] = min(backlog.records, source.limit * self._interval_ms / 1e3)
            backlog.take(rows[name])
        self._now_ms = now_ms
        return rows, oldest

    def rates(self, start_ms: float, end_ms: float) -> dict[str, float]:
        """Return the rows per second that arrive within a time."""
        return {
            n: rows / (end_ms - start_ms) * 1e3
            for n, rows in self._between(start_ms, end_ms).items()
        }

    def late(self, now_ms: float) -> dict[str, float]:
        """Return the rows that have waited for longer than an interval: a timestep should have read them."""
        due = max(self._now_ms, now_ms - self._interval_ms)
        unread = self._between(self._now_ms, due) if due > self._now_ms else {}
        return {name: each.records + unread.get(name, 0.0) for name, each in self._backlogs.items()}

    def _arrived(self, now_ms: float) -> dict[str, float]:
        self._place += 1
        if self._place == AHEAD:
            self._look_ahead()
            self._place += 1
        if abs(self._edges[self._place] - now_ms) < NEAR_MS:
            return {name: each[self._place - 1] for name, each in self._ahead.items()}
        arrived = self._between(self._now_ms, now_ms)
        self._now_ms, before = now_ms, self._now_ms
        self._look_ahead()
        self._now_ms = before
        return arrived

    def _look_ahead(self) -> None:
        edges = self._now_ms + self._interval_ms * np.arange(AHEAD + 1.0)
        self._edges, self._place = edges.tolist(), 0
        self._ahead = {
            name: each.load.arrivals(edges / 1e3).tolist() for name, each in self._sources.items()
        }

    def _between(self, start_ms: float, end_ms: float) -> dict[str, float]:
        edges = np.array([start_ms, end_ms]) / 1e3
        return {n: float(each.load.arrivals(edges)[0]) for n, each in self._sources.items()}
