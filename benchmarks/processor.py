"""Processor time of a process and everything that it started, over any span of its run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import psutil

EVERY_SECONDS = 0.25


@dataclass(slots=True)
class ProcessorTime:
    """Samples: when, ns since 1970, and the seconds used until then."""

    at: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def sample(self) -> None:
        """Look once."""
        self.at.append(time.time_ns())
        self.seconds.append(used())

    def between(self, begin_ns: float, end_ns: float) -> float:
        """Seconds used in a span, ns since 1970; between two samples as if evenly.

        Raises ValueError for a span that was not watched whole.
        """
        if not self.at or begin_ns < self.at[0] or end_ns > self.at[-1]:
            raise ValueError("the processor time of that span was not watched")
        begin, end = np.interp([begin_ns, end_ns], self.at, self.seconds)
        return float(end - begin)


@contextmanager
def processor_time() -> Iterator[ProcessorTime]:
    """Samples as long as the context lasts, and one more at its end."""
    watched, ended = ProcessorTime(), threading.Event()
    watched.sample()

    def watch() -> None:
        while not ended.wait(EVERY_SECONDS):
            watched.sample()

    thread = threading.Thread(target=watch, name="processor-time", daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()
        watched.sample()


def used() -> float:
    """Seconds that this process, its descendants, and those of them that have ended, used until now."""
    this = psutil.Process()
    return sum(_seconds(each) for each in (this, *this.children(recursive=True)))


def _seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # its parent has its time by now
    return float(times.user + times.system + times.children_user + times.children_system)
