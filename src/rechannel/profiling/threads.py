"""Analysis of pieces in threads: the expensive parts are compiled and release the interpreter
lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from os import cpu_count
from typing import Any

from rechannel.profiling.model.pieces import Piece

MAX_THREADS = 8
"""Upper bound of threads, and so of pieces that are held at a time."""


def in_threads(function: Callable[[Piece], Any], pieces: Iterable[Piece]) -> Iterator[Any]:
    """Apply a function to all pieces, one thread per processor; results are in order."""
    count = min(MAX_THREADS, cpu_count() or 1)
    if count == 1:
        yield from map(function, pieces)
        return
    with ThreadPoolExecutor(count) as pool:
        running: deque[Future[Any]] = deque()
        for piece in pieces:
            running.append(pool.submit(function, piece))
            if len(running) == count:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
