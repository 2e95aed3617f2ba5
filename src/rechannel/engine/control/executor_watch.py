"""Asks the cluster for its executors, once per timestep and once a second while there are none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future

from rechannel.engine.control.happenings import Happenings

LOOK_MS = 1_000
"""How long an idle stream waits from one look at its executors to the next."""


class ExecutorWatch:
    """The looks of one driver. Belongs to the driver's thread, but for the looks themselves."""

    def __init__(
        self, happenings: Happenings, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        """Look at nothing yet. clock: Unix milliseconds. wake: called when a look is over."""
        self._happenings, self._clock, self._wake = happenings, clock, wake
        self._look: Future[frozenset[str]] | None = None
        self._timestep, self._due_ms = 0, 0.0

    def turn(self, timestep: int, wanted: int | None, pool: Callable[[], Executor]) -> None:
        """Take what a look has found, or begin the next one.

        timestep: the next one. wanted: number of executors by the Configuration; None = any. pool: runs looks.
        """
        if self._look is not None:
            if self._look.done():
                if self._look.exception() is None:
                    self._happenings.looked(self._look.result(), wanted)
                self._look = None
            return
        now = self._clock()
        if self._timestep != timestep or now >= self._due_ms:
            self._timestep, self._due_ms = timestep, now + LOOK_MS
            self._look = pool().submit(self._happenings.look)
            self._look.add_done_callback(lambda _: self._wake())
