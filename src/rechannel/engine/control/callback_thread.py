"""The thread in which callbacks run, one at a time; what they leave waits here for the driver's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue

from rechannel.engine.control.callbacks import Callback, Returned
from rechannel.threads import DaemonThreads


class CallbackThread:
    """Belongs to the driver's thread, but for what runs in it."""

    def __init__(self, wake: Callable[[], None], executor: Executor | None) -> None:
        """Begin no thread yet. wake: called when a callback has returned. executor: None = a thread of its own."""
        self._wake = wake
        self._given, self._own = executor, executor
        # By serial: a controller that was removed and installed again has nothing to do with what the first one began.
        self._running: set[int] = set()
        self._left: SimpleQueue[tuple[int, Returned]] = SimpleQueue()

    @property
    def has_results(self) -> bool:
        """Whether `results` has something."""
        return not self._left.empty()

    def runs(self, serial: int) -> bool:
        """Whether a callback of a controller runs, or has left something that was not taken yet."""
        return serial in self._running

    def call(self, callback: Callback, function: Callable[[], Returned]) -> None:
        """Have a callback called after those before it. function: calls it."""
        self._running.add(callback.seat.serial)
        self.pool().submit(function).add_done_callback(partial(self._keep, callback))

    def _keep(self, callback: Callback, done: Future[Returned]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        returned = done.result() if error is None else callback.broken(error)
        self._left.put((callback.seat.serial, returned))
        self._wake()

    def results(self) -> Iterator[tuple[int, Returned]]:
        """Yield what callbacks have left, with the serial of each controller, in the order of their ends."""
        while not self._left.empty():
            serial, returned = self._left.get()
            self._running.discard(serial)
            yield serial, returned

    def forget(self, serial: int) -> None:
        """A controller is removed: what its callback leaves is of no use any more."""
        self._running.discard(serial)

    def pool(self) -> Executor:
        """Return what runs calls, and begins its thread with the first of them."""
        if self._own is None:
            self._own = DaemonThreads(1, "rechannel-controllers")
        return self._own

    def close(self) -> None:
        """Begin no more callbacks. An executor that was given is left alone."""
        if self._own is not None and self._own is not self._given:
            self._own.shutdown(wait=False, cancel_futures=True)
