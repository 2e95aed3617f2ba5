"""A clock that stands still until a test advances it."""

from __future__ import annotations

from datetime import timedelta

START_MS = 1_000_000_000_000.0
"""Where clocks begin: 2001-09-09 01:46:40 UTC, in Unix milliseconds."""


class ManualClock:
    """Unix milliseconds, as the driver asks for them. Timesteps take their time from it."""

    def __init__(self, now_ms: float = START_MS) -> None:
        """Start at a time."""
        self.now_ms = now_ms

    def __call__(self) -> float:
        """What time it is."""
        return self.now_ms

    def advance(self, by: timedelta | float) -> None:
        """Let time pass: a timedelta or milliseconds. Negative amounts turn the clock back."""
        self.now_ms += by / timedelta(milliseconds=1) if isinstance(by, timedelta) else by

    def pass_until(self, at_ms: float) -> None:
        """Let time pass until then, unless it has."""
        self.now_ms = max(self.now_ms, at_ms)
