"""A store that tolerates outages of another one: it retries what is safe to retry, until patience
ends.

A full disk is tolerated too, since space can be freed. Missing permission is not: only a user
changes it.

Every call may be repeated: keys are written atomically. If the outcome of a create is in doubt
(the request may have arrived, and the answer was lost), reading resolves it: the existing value is
ours if it equals ours byte for byte. What is created through this store must therefore identify
its writer: journal entries have the epoch, an `Opened` the id of its opening.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from rechannel.errors import NotPermittedError, StorageError
from rechannel.model.patience import Patience
from rechannel.state.store import Store

T = TypeVar("T")


def ignore(error: StorageError | None) -> None:
    """Ignore a failure."""


def _endless() -> float:
    """Return infinity: only patience ends the retries."""
    return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientStore:
    """The few files that a driver itself reads and writes. Its calls block for as long as patience
    lasts.
    """

    inner: Store
    patience: Patience
    tell: Callable[[StorageError | None], None] = ignore
    """Called with every failure that is retried, and then with None on success."""
    left: Callable[[], float] = _endless
    """Returns the seconds for which retries are still allowed, whatever patience says; few when
    the job is about to end.
    """
    sleep: Callable[[float], None] = time.sleep
    """Waits for seconds."""
    clock: Callable[[], float] = time.monotonic
    """Returns seconds; only differences count."""

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Store.read`."""
        return self._again(lambda: self.inner.read(key, start, length))

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """See `Store.put`."""
        self._again(lambda: self.inner.put(key, data))

    def create(self, key: str, data: bytes) -> bool:
        """See `Store.create`. A value that a seemingly failed attempt wrote is ours."""
        doubts: list[StorageError] = []

        def attempt() -> bool:
            try:
                made = self.inner.create(key, data)
            except StorageError as error:
                doubts.append(error)
                raise
            return made or (bool(doubts) and bytes(self.inner.read(key)) == data)

        return self._again(attempt)

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._again(lambda: self.inner.delete(key))

    def list(self, prefix: str) -> Iterator[str]:
        """See `Store.list`."""
        return iter(self._again(lambda: [*self.inner.list(prefix)]))

    def size(self, key: str) -> int:
        """See `Store.size`."""
        return self._again(lambda: self.inner.size(key))

    def _again(self, call: Callable[[], T]) -> T:
        failures, began = 0, self.clock()
        while True:
            try:
                result = call()
            except NotPermittedError:
                raise
            except StorageError as error:
                failures += 1
                wait = self.patience.wait_ms(failures, (self.clock() - began) * 1e3)
                left = self.left()
                if wait is None:
                    raise
                if left <= 0:
                    msg = f"{error}; it is not retried, since the job is stopping"
                    raise StorageError(msg) from error
                self.tell(error)
                self.sleep(min(wait / 1e3, left))
                continue
            if failures:
                self.tell(None)
            return result
