"""Threads that wait until everything that was there when they asked is processed, and the driver that tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Draining:
    """Counts who asks. A driver that finds nothing to do answers all who had asked before it looked."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """wake: makes the driver look."""
        self._wake = wake
        self._asked = 0
        self._answered = 0
        self._idle = threading.Condition()

    @property
    def asked(self) -> int:
        """How many have asked so far."""
        return self._asked

    def wait(self, ended: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for the answer, or the end of the driver. False after `timeout` seconds."""
        with self._idle:
            self._asked += 1
            wanted = self._asked
            self._wake()
            return self._idle.wait_for(lambda: self._answered >= wanted or ended(), timeout)

    def answer(self, asked: int) -> None:
        """Record that everything is processed that was there when the call of this number was made."""
        with self._idle:
            self._answered = max(self._answered, asked)
            self._idle.notify_all()

    def over(self) -> None:
        """The driver has ended: those that wait are let go."""
        with self._idle:
            self._idle.notify_all()
