"""Read many keys of a store in order, several at a time where each of them is a request over a network."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from rechannel.errors import MissingFileError
from rechannel.state.store import Store, is_remote
from rechannel.threads import DaemonThreads

AT_A_TIME = 16
"""Requests under way, at most."""
BYTES = 64 << 20
"""That are held ahead of the reader, if keys are as large as the largest so far."""


def read_in_order(store: Store, keys: Sequence[str]) -> Iterator[memoryview | None]:
    """Yield the bytes of each key; None for one that is missing. Raises what `Store.read` raises, in its place."""
    if not is_remote(store):
        yield from (_read(store, key) for key in keys)
        return
    threads, left, largest = DaemonThreads(AT_A_TIME, "rechannel-read"), deque(keys), 1
    under_way = deque[Future[memoryview | None]]()
    try:
        while left or under_way:
            room = max(1, min(AT_A_TIME, BYTES // largest))
            while left and len(under_way) < room:
                under_way.append(threads.submit(_read, store, left.popleft()))
            data = under_way.popleft().result()
            largest = max(largest, 0 if data is None else len(data))
            yield data
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def _read(store: Store, key: str) -> memoryview | None:
    try:
        return store.read(key)
    except MissingFileError:
        return None
