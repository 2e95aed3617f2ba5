"""A store at the end of a slow line: reads take as long as their bytes over a stated bandwidth.

All processes that name the same line share it, as those of a host share its network card: who reads
reserves the line for as long as the bytes take, after those that reserved it before, and sleeps until
then. The line is a file with one number, the time at which it is free again, on the clock that all
processes of a machine share.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rechannel.errors import RefusedError
from rechannel.state.store import Backing, FileFacts

_TIME = struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class ThrottledStore:
    """Passes everything to `backing`; reads and fetches wait for the line. A value: pickled to workers.

    bandwidth: bytes per second. line: path of the line's file; variables in it (`$NAME`) are those of
    the worker's environment, so that hosts simulated on one machine have lines of their own.
    latency: seconds per request, before its bytes; requests do not wait for each other's.
    """

    backing: Backing
    bandwidth: float
    line: str
    latency: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a line that nothing passes."""
        if self.bandwidth <= 0 or self.latency < 0:
            msg = (
                f"ThrottledStore: bandwidth must be > 0 bytes/s and latency >= 0 s, not {self.bandwidth}"
                f" and {self.latency}"
            )
            raise RefusedError(msg)

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Store.read`."""
        data = self.backing.read(key, start, length)
        self._wait(len(data))
        return data

    def fetch(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes | memoryview]:
        """See `Backing.fetch`."""
        parts = self.backing.fetch(key, spans)
        self._wait(sum(map(len, parts)))
        return parts

    def facts(self, key: str) -> FileFacts:
        """See `Backing.facts`."""
        return self.backing.facts(key)

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """See `Store.put`."""
        self.backing.put(key, data)

    def create(self, key: str, data: bytes) -> bool:
        """See `Store.create`."""
        return self.backing.create(key, data)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self.backing.delete(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See `Store.list`."""
        return self.backing.list(prefix)

    def size(self, key: str) -> int:
        """See `Store.size`."""
        return self.backing.size(key)

    def _wait(self, size: int) -> None:
        now = time.monotonic()
        until = reserve(os.path.expandvars(self.line), now, size / self.bandwidth)
        time.sleep(max(0.0, until - now) + self.latency)


def reserve(line: str, now: float, seconds: float) -> float:
    """Reserve the line for that long, after earlier calls; when that is over.

    now, and the answer: seconds on the clock of the machine (`time.monotonic`).
    """
    descriptor = os.open(line, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        known = os.pread(descriptor, _TIME.size, 0)
        free = _TIME.unpack(known)[0] if len(known) == _TIME.size else now
        until = max(now, free) + seconds
        os.pwrite(descriptor, _TIME.pack(until), 0)
    finally:
        os.close(descriptor)
    return float(until)
