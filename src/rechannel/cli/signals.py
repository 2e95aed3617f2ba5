"""A process that is asked to stop, and finishes what it has begun."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType


@contextmanager
def asked_to_stop() -> Iterator[Event]:
    """An event that the first SIGINT or SIGTERM sets. The second one ends the process."""
    asked = Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        signal.signal(number, signal.SIG_DFL)
        asked.set()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
