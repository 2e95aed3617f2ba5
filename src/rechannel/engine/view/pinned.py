"""Pin versions of the state while they are read, so that their files stay however far the stream has advanced.

A reader pins first and then checks whether the journal still keeps the version. A sweep reads the journal first and
then asks what is pinned. So no sweep removes a version between this check and its release.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from types import TracebackType

from rechannel.engine.journal.state import JournalState
from rechannel.engine.view.state_view import version_at


class Hold:
    """One pinned version, until it is released. A context manager."""

    def __init__(self, held: Pinned, number: int, state: JournalState) -> None:
        """Use `Pinned.hold`."""
        self._held, self._number = held, number
        self.state = state
        """State of the journal, which keeps the version."""

    def release(self) -> None:
        """Release the version. Further calls do nothing."""
        self._held._drop(self._number)

    def __enter__(self) -> Hold:
        """Keep the version until the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the version."""
        self.release()


class Pinned:
    """The pinned versions of one job. Threads may share it."""

    def __init__(self) -> None:
        """Nothing is pinned yet."""
        self._files: dict[int, frozenset[str]] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()

    def hold(self, state: Callable[[], JournalState], timestep: int | None = None) -> Hold:
        """Pin the version of a timestep; None means the latest. state: returns the journal's present state.

        Raises NotReadyError if the version is not kept.
        """
        while True:
            now = state()
            made = Hold(self, next(self._numbers), now)
            files = frozenset(version_at(now, timestep).files())
            with self._lock:
                self._files[made._number] = files
            wanted = now.last_committed if timestep is None else timestep
            if wanted is None or wanted in state().versions:
                return made
            made.release()

    def files(self) -> frozenset[str]:
        """Return the keys of all files of all pinned versions."""
        with self._lock:
            return frozenset().union(*self._files.values())

    def _drop(self, number: int) -> None:
        with self._lock:
            self._files.pop(number, None)
