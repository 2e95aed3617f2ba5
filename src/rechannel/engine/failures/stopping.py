"""Whether a job was told to stop, and for how long it still tries what fails.

A driver that waits for its store, or a sink that waits for its next attempt, would hold up a stop for as long as its
patience lasts. So from the moment at which a stop is asked for, all of them have the same few seconds left. What fails
then ends the job with its error: what is not in the journal does not count, and the next start goes on from there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable


class Stopping:
    """One job's stop. Any thread may ask for it, look, or wait here."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is asked for yet. seconds: from the stop to the last try. clock: seconds that pass."""
        self._seconds, self._clock = seconds, clock
        self._asked = threading.Event()
        self._until = math.inf
        self._wakes: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether the job is to end."""
        return self._asked.is_set()

    def ask(self) -> None:
        """From now on; the first time counts."""
        if not self.asked:
            self._until = self._clock() + self._seconds
            self._asked.set()
            for wake in self._wakes:
                wake()

    def on_asked(self, wake: Callable[[], None]) -> None:
        """Have a function called when the stop is asked for, in the thread that asks."""
        self._wakes.append(wake)

    def left(self) -> float:
        """Seconds for which what fails may still be tried again."""
        return max(0.0, self._until - self._clock())

    def sleep(self, seconds: float) -> None:
        """Wait before another try; a stop that is asked for meanwhile ends the wait."""
        if self.asked:
            time.sleep(min(seconds, self.left()))
        else:
            self._asked.wait(seconds)
