"""A store that fails on command: the scripted half of a simulation.

Every write (put, create, delete) takes the next item of the script: None lets it through, a
`Fault` does not. There is no randomness in here; the author of the script decides. After a crash,
the store is dead for the process that holds it, as files are for a dead process: every later call
raises `Crash` again. The restarted process is another `FaultyStore` around the same inner store.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from rechannel.errors import StorageError
from rechannel.state.store import FileFacts, RangedStore, Ranges, Store, close_files, ranges_of

T = TypeVar("T")


class Crash(BaseException):
    """The process that used the store died here. It is a death, not an error: no handler stops it."""


class FaultKind(StrEnum):
    """What goes wrong with one write."""

    TORN = "torn"
    """The machine dies during a put, and a prefix stays under the key, as may happen after a power
    failure in a store without fsync. A create is atomic in every store and never tears: for it,
    as for a delete, TORN is BEFORE.
    """
    BEFORE = "before"
    """The process dies before the write happened."""
    AFTER = "after"
    """The process dies after the write happened, before it received the answer."""
    FULL = "full"
    """Nothing is written, and StorageError is raised; the process lives on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong."""

    kind: FaultKind
    kept: float = 0.5
    """The fraction of the bytes that a torn put leaves, in [0, 1]."""

    def __post_init__(self) -> None:
        """Check the fraction."""
        if not 0 <= self.kept <= 1:
            msg = f"a torn put keeps a fraction in [0, 1], not {self.kept}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """The store does not answer for a while: a write and the following calls, reads included,
    raise StorageError.
    """

    calls: int = 1
    """How many calls fail, the write included."""
    written: bool = False
    """Whether the write itself arrived, and only its answer was lost."""

    def __post_init__(self) -> None:
        """Check the number."""
        if self.calls < 1:
            msg = f"an outage lasts for at least 1 call, not {self.calls}"
            raise ValueError(msg)


class FaultyStore(RangedStore):
    """Passes everything to an inner store, except where the script says otherwise."""

    def __init__(self, inner: Store, script: Iterable[Fault | Outage | None] = ()) -> None:
        """Take one item of the script per write; when it ends, nothing fails any more.

        outages: counts the calls that failed because of an outage.
        """
        self.outages = 0
        self._away = 0
        self._inner = inner
        self._script = iter(script)
        self.writes = 0
        self.crashed = False

    def read(self, key: str, start: int = 0, length: int | None = None) -> memoryview:
        """See `Store.read`."""
        return self._alive().read(key, start, length)

    def ranges(self, key: str, known: FileFacts | None = None) -> Ranges | None:
        """Return a file in parts, if the inner store fetches parts."""
        return ranges_of(self._alive(), key, known)

    def put_known(self, key: str, data: list[memoryview], known: FileFacts) -> None:
        """Write as `put` does."""
        del known
        self.put(key, data)

    def close_files(self) -> None:
        """Close the files of the inner store. See `RangedStore.close_files`."""
        close_files(self._inner)

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        """See `Store.put`."""
        whole = b"".join(data) if isinstance(data, list) else bytes(data)

        def tear(kept: float) -> None:
            self._inner.put(key, whole[: int(len(whole) * kept)])

        self._write(key, lambda: self._inner.put(key, whole), tear)

    def create(self, key: str, data: bytes) -> bool:
        """See `Store.create`."""
        return self._write(key, lambda: self._inner.create(key, data))

    def delete(self, key: str) -> None:
        """See `Store.delete`."""
        self._write(key, lambda: self._inner.delete(key))

    def list(self, prefix: str) -> Iterator[str]:
        """See `Store.list`."""
        return self._alive().list(prefix)

    def size(self, key: str) -> int:
        """See `Store.size`."""
        return self._alive().size(key)

    def _write(
        self, key: str, write: Callable[[], T], tear: Callable[[float], None] | None = None
    ) -> T:
        self._alive()
        fault = next(self._script, None)
        self.writes += 1
        if fault is None:
            return write()
        if isinstance(fault, Outage):
            if fault.written:
                write()
            self._away = fault.calls
            raise self._absence()
        if fault.kind is FaultKind.FULL:
            msg = f"cannot write {key}: {os.strerror(errno.ENOSPC)} (scripted)"
            raise StorageError(msg)
        if fault.kind is FaultKind.AFTER:
            write()
        elif fault.kind is FaultKind.TORN and tear is not None:
            tear(fault.kept)
        self.crashed = True
        raise self._death()

    def _alive(self) -> Store:
        if self.crashed:
            raise self._death()
        if self._away:
            raise self._absence()
        return self._inner

    def _absence(self) -> StorageError:
        self._away -= 1
        self.outages += 1
        return StorageError("the store does not answer (scripted)")

    def _death(self) -> Crash:
        return Crash(f"the process died at its write number {self.writes}")
