"""Versions that are being read: their files stay, however far the stream has gone on since.

A reader says so first and looks then whether the journal still keeps the version. A sweep reads the journal first
and asks then what is held. So a version that was found to be kept is in no sweep before it is released.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from types import TracebackType

from rechannel.engine.journal.state import JournalState
from rechannel.engine.view.state_view import version_at


class Hold:
    """One version that stays until it is released. A context manager. state: the journal's, which keeps it."""

    def __init__(self, held: Pinned, number: int, state: JournalState) -> None:
        """Use `Pinned.hold`."""
        self._held, self._number = held, number
        self.state = state

    def release(self) -> None:
        """Let it go; again does nothing."""
        self._held._drop(self._number)

    def __enter__(self) -> Hold:
        """Hold until the block ends."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let it go."""
        self.release()


class Pinned:
    """What is held of one job. Threads may share it."""

    def __init__(self) -> None:
        """Nothing is held."""
        self._files: dict[int, frozenset[str]] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()

    def hold(self, state: Callable[[], JournalState], timestep: int | None = None) -> Hold:
        """Hold the version of a timestep; None = the latest one. state: of the journal, now.

        Raises NotReadyError when it is not kept.
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
        """Keys of all files of all versions that are held."""
        with self._lock:
            return frozenset().union(*self._files.values())

    def _drop(self, number: int) -> None:
        with self._lock:
            self._files.pop(number, None)
