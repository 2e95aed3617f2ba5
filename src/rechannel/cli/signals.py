"""How signals end a command that runs a job.

SIGTERM while the job starts ends the command: nothing is in flight. From then on the first SIGTERM or SIGINT asks for a
stop, and the next one ends the process at once. The same signal may arrive twice (a service manager tells every
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

ONE_SECONDS = 1.0
"""Signals within this time of the first one are the first one."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def exit_code(number: int) -> int:
    """Exit code of a process that a signal has ended, as shells report it."""
    return 128 + number


@contextmanager
def ending_at_once() -> Iterator[None]:
    """While a job starts: SIGTERM raises SystemExit."""

    def on_start(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(exit_code(number))

    with _handled(on_start, (signal.SIGTERM,)):
        yield


@contextmanager
def asked_to_stop(clock: Callable[[], float] = time.monotonic) -> Iterator[threading.Event]:
    """While a job runs: yield an event that the first SIGINT or SIGTERM sets. A second one ends the process.

    clock: monotonic seconds.
    """
    asked = threading.Event()
    first = 0.0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal first
        del frame
        if not asked.is_set():
            first = clock()
            asked.set()
        elif clock() - first >= ONE_SECONDS:
            _end(exit_code(number))

    with _handled(on_signal, SIGNALS):
        yield asked


def to_main_thread(name: str) -> None:
    """Send a signal, by name without SIG, to the main thread of this process."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.Signals[f"SIG{name}"])


@contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None], numbers: tuple[signal.Signals, ...]
) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


def _end(code: int) -> None:
    with suppress(Exception):  # a stream that is being written to cannot be flushed
        sys.stderr.flush()
    os._exit(code)
