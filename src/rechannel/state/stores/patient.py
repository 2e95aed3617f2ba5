"""A store that bears outages of another one: what fails is tried again, where that is safe, until patience ends.

A full disk is borne too, since space can be freed. Missing permission is not: nothing but a user changes it.

Every call may be repeated: keys are written whole. A create whose outcome is in doubt (the request may have arrived,
the answer has not) is resolved by reading: what is there is ours if it is what we wrote, to the byte. What is created
through this store must therefore name its writer: journal entries have the epoch, an `Opened` the id of its opening.
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


def nobody(error: StorageError | None) -> None:
    """Tell no one."""


def _endless() -> float:
    """Nothing but patience ends the tries."""
    return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientStore:
    """The few files that a driver itself reads and writes. Its calls block for as long as patience lasts.

    left: seconds for which anything may still be tried again, whatever patience says: few when the job is to end.
    tell: told of every failure that is tried again, and then of the success (None). sleep: waits for seconds.
    clock: seconds; only differences count.
    """

    inner: Store
    patience: Patience
    tell: Callable[[StorageError | None], None] = nobody
    left: Callable[[], float] = _endless
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Store.read`."""
        return self._again(lambda: self.inner.read(key, start, length))

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """See `Store.put`."""
        self._again(lambda: self.inner.put(key, data))

    def create(self, key: str, data: bytes) -> bool:
        """See `Store.create`. What an attempt wrote that seemed to fail is ours."""
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
                    msg = f"{error}; it is not tried any more, since the job is to end"
                    raise StorageError(msg) from error
                self.tell(error)
                self.sleep(min(wait / 1e3, left))
                continue
            if failures:
                self.tell(None)
            return result
