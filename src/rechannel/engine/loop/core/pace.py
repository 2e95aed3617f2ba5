"""When the interval admits another timestep. Pure; times are Unix milliseconds."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

POLL_SHARE = 4
"""An idle loop asks its sources for at most a fifth of the time, and at least once a second."""
LONGEST_POLL_MS = 1000.0

IDLE_LOOK_MS = 1000.0
"""How long a change waits for the next timestep where only the interval keeps it back."""


class Pace(Struct, frozen=True, kw_only=True):
    """The grid on which timesteps begin."""

    due_ms: float = 0.0
    """When the next timestep may begin."""
    looked_ms: float = 0.0
    """When a timestep last began, or changes were last made without one."""

    def admits(self, wall_ms: float, interval_ms: int) -> bool:
        """Return whether the interval admits another timestep."""
        return not self.left(wall_ms, interval_ms)

    def left(self, wall_ms: float, interval_ms: int) -> float:
        """Return for how many milliseconds the interval keeps the next timestep back."""
        due = self.due_ms - wall_ms
        return due if 0 < due <= interval_ms else 0.0

    def rested(self, wall_ms: float) -> bool:
        """Return whether the interval has kept timesteps back for so long that changes are made without one."""
        return not 0 <= wall_ms - self.looked_ms < IDLE_LOOK_MS

    def looked(self, wall_ms: float) -> Pace:
        """Return the pace after changes were made without a timestep."""
        return replace(self, looked_ms=wall_ms)

    def began(self, wall_ms: float, interval_ms: int) -> Pace:
        """Return the pace after a timestep began: the next one is due on the grid, or an interval from now if the
        grid is lost."""
        on_grid = self.due_ms <= wall_ms < self.due_ms + interval_ms
        due = self.due_ms + interval_ms if on_grid else wall_ms + interval_ms
        return Pace(due_ms=due, looked_ms=wall_ms)

    def hastened(self, unread: float, interval_ms: int) -> Pace:
        """Return the pace after a timestep that left rows unread: the next is due earlier by their share of an
        interval.

        unread: rows that it left over rows that it read.
        """
        return replace(self, due_ms=self.due_ms - min(unread, 1.0) * interval_ms)

    def pause(self, wall_ms: float, *, interval_ms: int, poll_ms: float, polled_ms: float) -> float:
        """Return how long an idle loop may sleep, in milliseconds.

        poll_ms: the setting. polled_ms: how long it took to ask sources that had nothing.
        """
        pause = max(poll_ms, min(POLL_SHARE * polled_ms, LONGEST_POLL_MS))
        due = self.due_ms - wall_ms
        return max(1, min(pause, due)) if interval_ms and due > 0 else pause
