"""What has arrived and is not read yet, oldest first: how much, and since when."""

from __future__ import annotations

from collections import deque

LEFT = 1e-12
"""Share of what was there that may be left over by rounding and counts as nothing."""


class Backlog:
    """Records that wait to be read, in the order in which they arrived."""

    __slots__ = ("_portions", "records")

    def __init__(self) -> None:
        """Begin with nothing."""
        self._portions: deque[tuple[float, float, float]] = deque()
        self.records = 0.0

    def add(self, since_s: float, until_s: float, records: float) -> None:
        """Append records that arrived evenly within a time."""
        if records > 0:
            self._portions.append((since_s, until_s, records))
            self.records += records

    def take(self, records: float) -> None:
        """Remove the oldest records."""
        if records >= self.records * (1 - LEFT):
            self.clear()
            return
        self.records -= records
        portions = self._portions
        while len(portions) > 1 and portions[0][2] <= records:
            records -= portions.popleft()[2]
        since, until, present = portions[0]
        part = min(1.0, records / present)
        portions[0] = since + part * (until - since), until, present * (1 - part)

    def clear(self) -> None:
        """Remove everything."""
        self._portions.clear()
        self.records = 0.0

    def age_s(self, now_s: float) -> float:
        """Return how long the oldest record has been waiting, in seconds; 0 if none is."""
        return now_s - self._portions[0][0] if self._portions else 0.0
