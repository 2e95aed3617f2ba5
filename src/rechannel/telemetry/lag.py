"""The lag of a stream at each of its sources: a fold over its committed timesteps. Pure.

At each look at a source, what has arrived since the driver began is

    arrived = read by all timesteps so far + left unread by this one

in the measure in which the source counts (rows, or bytes on disk). The looks make `arrived` a function of time that
only grows. The oldest unread row is the one at which `arrived` passes what is read: it came at the time at which the
function has that value, linear between two looks (exporters of Kafka's lag call this an offset lookup table). So the
lag in seconds costs no question to anyone: not when a timestep begins, and not when the lag is asked for.

A row that was there at the first look arrived at some earlier time. As long as such a row is unread, its time since the
first look is a lower bound of the lag.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from rechannel.sources.backlog import Backlog, BytesPerRow
from rechannel.telemetry.facts import SourceLag

MOST_LOOKS = 256
"""Looks that are remembered of a source; of more, every other one is forgotten."""


@dataclass(slots=True)
class Looks:
    """When how much had arrived at a source."""

    at_ms: list[int] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)
    read: int = 0

    def see(self, at_ms: int, taken: int, left: int) -> None:
        """Add a look. taken: what its timestep reads. left: what it leaves."""
        self.read += taken
        if not left:  # nothing that is read later can be older than this look
            self.at_ms, self.arrived = [], []
        latest = self.arrived[-1] if self.arrived else 0
        self.at_ms.append(max(at_ms, self.at_ms[-1] if self.at_ms else at_ms))
        self.arrived.append(max(latest, self.read + left))
        passed = bisect_right(self.arrived, self.read) - 1
        if passed > 0:
            del self.at_ms[:passed], self.arrived[:passed]
        if len(self.at_ms) > MOST_LOOKS:
            del self.at_ms[1:-1:2], self.arrived[1:-1:2]

    def oldest_ms(self) -> tuple[float, bool]:
        """Return when the oldest unread row arrived, and whether that is only the latest time at which it can have.

        There must be one.
        """
        later = bisect_right(self.arrived, self.read)
        if later == 0:
            return self.at_ms[0], True
        before = self.arrived[later - 1]
        share = (self.read - before) / (self.arrived[later] - before)
        began, ended = self.at_ms[later - 1], self.at_ms[later]
        return began + share * (ended - began), False


class LagOfSource:
    """Folds the timesteps of one source."""

    def __init__(self) -> None:
        self._size = BytesPerRow()
        self._looks = Looks()
        self._counts_rows = True

    def see(self, at_ms: int, left: Backlog | None, rows: int, size: int) -> SourceLag:
        """Return the lag after a timestep.

        at_ms: when it was decided. left: what it leaves unread; None = not known. rows, size: what its tasks read, in
        rows and in bytes of memory.
        """
        if left is None:
            self._pass_over(rows)
            return SourceLag(at_ms=at_ms)
        if self._counts_rows is not (left.rows is not None):
            self._counts_rows, self._looks = left.rows is not None, Looks()
        if left.rows is not None:
            self._size.see(rows, size)
            taken = rows if left.taken_rows is None else left.taken_rows
            waiting, other, estimated = left.rows, self._size.bytes(left.rows), "bytes"
        else:
            self._size.see(rows, left.taken_bytes)
            taken, waiting = left.taken_bytes, left.bytes or 0
            other, estimated = self._size.rows(waiting), "rows"
        self._looks.see(at_ms, taken, waiting)
        seconds, at_least = self._waited(at_ms) if waiting else (0.0, False)
        in_rows = (waiting, other) if self._counts_rows else (other, waiting)
        return SourceLag(
            at_ms=at_ms,
            rows=in_rows[0],
            bytes=in_rows[1],
            seconds=seconds,
            at_least=at_least,
            estimated=estimated if other else None,
        )

    def _pass_over(self, rows: int) -> None:
        """Go on after a timestep that has not said what it leaves."""
        if self._counts_rows:
            self._looks.read += rows
        else:
            self._looks = Looks()

    def _waited(self, at_ms: int) -> tuple[float, bool]:
        """Return seconds, and whether they are a lower bound."""
        oldest_ms, at_least = self._looks.oldest_ms()
        return round(max(0.0, at_ms - oldest_ms) / 1e3, 3), at_least


def lag_now(lag: SourceLag, now_ms: float) -> SourceLag:
    """Return a lag as it is at a later time: as long as no other timestep has read on, rows that wait get older."""
    if lag.seconds is None or not (lag.rows or lag.bytes):
        return lag
    return replace(lag, seconds=round(lag.seconds + max(0.0, now_ms - lag.at_ms) / 1e3, 3))
