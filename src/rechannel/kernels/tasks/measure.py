"""What a task measures of itself."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rechannel.kernels.tasks.report import TaskCosts
from rechannel.state.cache.fetch_time import fetched

T = TypeVar("T")


@dataclass
class Measures:
    """Milliseconds per activity of one task, and counts. `cpu_ms` covers the whole task.

    State is fetched from shared storage within other activities. That time counts as `fetch` and not as theirs, so that
    activities do not overlap.
    """

    started_ms: float = field(default_factory=lambda: time.time() * 1e3)
    ms: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    bytes_fetched: int = 0
    _cpu: float = field(default_factory=time.process_time)

    @contextmanager
    def activity(self, name: str) -> Iterator[None]:
        """Add the time of a block to an activity."""
        before, start = fetched(), time.perf_counter()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0.0) + (time.perf_counter() - start) * 1e3
            if fetched() is not before:
                new = fetched().since(before)
                self.ms[name] -= new.ms
                self.ms["fetch"] = self.ms.get("fetch", 0.0) + new.ms
                self.bytes_fetched += new.bytes

    def waiting(self, items: Iterable[T]) -> Iterator[T]:
        """Pass items on; the time until each arrives counts as `wait`."""
        iterator = iter(items)
        while True:
            with self.activity("wait"):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def count(self, name: str, amount: int) -> None:
        """Add to a count."""
        self.counts[name] = self.counts.get(name, 0) + amount

    def costs(self) -> TaskCosts:
        """Return what was measured, up to now."""
        return TaskCosts(
            host=socket.gethostname(),
            pid=os.getpid(),
            started_ms=round(self.started_ms, 3),
            finished_ms=round(time.time() * 1e3, 3),
            cpu_ms=round((time.process_time() - self._cpu) * 1e3, 3),
            ms={name: round(value, 3) for name, value in self.ms.items()},
            counts=self.counts,
        )
