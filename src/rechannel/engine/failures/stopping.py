"""Whether a job was asked to stop, and for how long it still retries what fails.

A driver that waits for its store, or a sink that waits for its next attempt, would delay a stop for as long as its
patience lasts. So from the moment a stop is requested, all of them have the same few seconds left. A failure after that
ends the job with its error: what is not in the journal does not count, and the next start continues from there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Stopping:
    """The stop of one job. Any thread may request it, check it, or wait."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """seconds: from the stop to the last retry. clock: monotonic seconds."""
        self._seconds, self._clock = seconds, clock
        self._asked = threading.Event()
        self._until = math.inf
        self._wakes: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether the job is to stop."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Request the stop. Later calls change nothing."""
        if not self.asked:
            self._until = self._clock() + self._seconds
            self._asked.set()
            for wake in self._wakes:
                wake()

    def on_asked(self, wake: Callable[[], None]) -> None:
        """Register a function that the thread which requests the stop calls."""
        self._wakes.append(wake)

    def left(self) -> float:
        """Return the seconds for which failures may still be retried."""
        return max(0.0, self._until - self._clock())

    def sleep(self, seconds: float) -> None:
        """Wait before a retry. A stop ends the wait."""
        if self.asked:
            time.sleep(min(seconds, self.left()))
        else:
            self._asked.wait(seconds)
