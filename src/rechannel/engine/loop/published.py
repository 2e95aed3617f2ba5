"""What other threads see of a driver: one frozen position, published once per turn."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rechannel.engine.program.position import StreamPosition


class PublishedPosition:
    """The latest position. The driver's thread publishes, any thread looks or waits."""

    def __init__(self, first: StreamPosition) -> None:
        """first: before the first turn."""
        self._latest = first
        self._changed = threading.Condition()

    @property
    def position(self) -> StreamPosition:
        """As of the end of the last turn."""
        return self._latest

    def publish(self, position: StreamPosition) -> None:
        """Show another position, and have those who wait look at it."""
        with self._changed:
            self._latest = position
            self._changed.notify_all()

    def wake(self) -> None:
        """Have those who wait look again, since the driver has ended."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(
        self, reached: Callable[[StreamPosition], bool], timeout: float | None = None
    ) -> bool:
        """Wait for a position; return False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self._latest), timeout)
