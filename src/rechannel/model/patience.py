"""For how long, and how often, an operation is retried that failed for a transient reason. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What a job tolerates of its cluster and its store before it ends."""

    seconds: float = 300.0
    """From the first failure in a row to the last retry; 0 for no retries."""
    first_seconds: float = 0.5
    """Wait before the first retry; every further wait is twice as long."""
    most_seconds: float = 15.0
    """The longest wait."""
    stop_seconds: float = 5.0
    """From the request to stop the job to the last retry of the store and of sinks."""

    def __post_init__(self) -> None:
        """Check that all are durations. Raises ValueError."""
        for name in ("seconds", "first_seconds", "most_seconds", "stop_seconds"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value < 1e9
            ):
                msg = f"patience: {name} must be a number of seconds, at least 0 and below 1e9, not {value!r}"
                raise ValueError(msg)

    def wait_ms(self, failures: int, since_first_ms: float) -> float | None:
        """Return the milliseconds until the next retry; None if patience is exhausted.

        failures: number of failures in a row. since_first_ms: time since the first of them. The
        last retry happens when patience ends.
        """
        left = self.seconds * 1e3 - since_first_ms
        if left <= 0:
            return None
        doubled: float = self.first_seconds * 2.0 ** min(failures - 1, 30)
        return min(doubled * 1e3, self.most_seconds * 1e3, left)
