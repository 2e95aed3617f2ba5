"""How signals end a command that runs a job.

SIGTERM while the program is imported ends the command: nothing runs yet. From then on the first SIGTERM or SIGINT asks
for a stop, and the next one ends the process at once. The same signal may arrive twice (a service manager tells every
process, and the JVM passes its own on), so what comes within a second of the first is taken for the first.

The handlers end the process themselves: as process 1 of a container it has no default reaction to a signal.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self

ONE_SECONDS = 1.0
"""Signals within this time of the first one are the first one."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def exit_code(number: int) -> int:
    """Exit code of a process that a signal has ended, as shells report it."""
    return 128 + number


@contextmanager
def ending_at_once() -> Iterator[None]:
    """While a program is imported: SIGTERM raises SystemExit."""

    def on_start(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(exit_code(number))

    before = signal.signal(signal.SIGTERM, on_start)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Asked:
    """The first SIGINT or SIGTERM sets `asked`, a second one ends the process, for as long as the context lasts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Listen to none yet. clock: monotonic seconds."""
        self.asked = threading.Event()
        self._clock = clock
        self._first = 0.0
        self._before = {number: signal.getsignal(number) for number in SIGNALS}

    def __enter__(self) -> Self:
        """Listen."""
        self.listen()
        return self

    def __exit__(self, *error: object) -> None:
        """Give the signals back."""
        for number, handled in self._before.items():
            signal.signal(number, handled)

    def listen(self) -> None:
        """Take the signals over, also from a handler that was installed meanwhile."""
        for number in SIGNALS:
            signal.signal(number, self.on_signal)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Receive a signal."""
        del frame
        if not self.asked.is_set():
            self._first = self._clock()
            self.asked.set()
        elif self._clock() - self._first >= ONE_SECONDS:
            _end(exit_code(number))


def to_main_thread(name: str) -> None:
    """Send a signal, by name without SIG, to the main thread of this process."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.Signals[f"SIG{name}"])


def _end(code: int) -> None:
    with suppress(Exception):  # a stream that is being written to cannot be flushed
        sys.stderr.flush()
    os._exit(code)
