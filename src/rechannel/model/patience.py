"""How long, and how often, something is tried again that failed for reasons that pass. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What a job bears of its cluster and of its store before it ends.

    seconds: from the first failure in a row to the last try; 0 = nothing is tried again.
    first_seconds: before the second try; every further wait is twice as long. most_seconds: the longest wait.
    stop_seconds: from the moment at which the job is told to stop to the last try, of the store and of sinks.
    """

    seconds: float = 300.0
    first_seconds: float = 0.5
    most_seconds: float = 15.0
    stop_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what is no length of time."""
        for name in ("seconds", "first_seconds", "most_seconds", "stop_seconds"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value < 1e9
            ):
                msg = f"patience: {name} must be a number of seconds from 0 on, not {value!r}"
                raise ValueError(msg)

    def wait_ms(self, failures: int, since_first_ms: float) -> float | None:
        """Milliseconds until the next try after so many failures in a row; None = patience is exhausted.

        since_first_ms: from the first of them until now. The last try is when patience ends.
        """
        left = self.seconds * 1e3 - since_first_ms
        if left <= 0:
            return None
        doubled: float = self.first_seconds * 2.0 ** min(failures - 1, 30)
        return min(doubled * 1e3, self.most_seconds * 1e3, left)
