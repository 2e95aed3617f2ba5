"""Two threads beside the loop: one keeps the lease, one notices that what runs the tasks has died.

A sign that cannot be given is given again: one failure says nothing of the next try. Only the journal says that a
driver was replaced; then both the signs and the driver end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rechannel.errors import ClusterError, FencedError
from rechannel.telemetry.troubles import Trouble, unheard
from rechannel.threads import daemon_thread

RENEW_SECONDS = 2.0
LOOK_SECONDS = 0.5
COUNTED_EVERY, TOLD_AFTER = 4, 5
"""At every fourth look, executors are counted; a fifth count in a row without any is a trouble: ten seconds."""

EXECUTORS = "executors"
"""Topic of the trouble that none takes tasks."""
LEASE = "lease"
"""Topic of the troubles that renewals have."""


class Heartbeat:
    """Renews the lease until the job is over."""

    def __init__(
        self,
        renew: Callable[[], None],
        *,
        over: threading.Event,
        replaced: Callable[[FencedError], None],
        trouble: Trouble,
        seconds: float = RENEW_SECONDS,
    ) -> None:
        """renew: raises FencedError if another driver took over, which `replaced` receives."""
        self._renew, self._replaced, self._trouble = renew, replaced, trouble
        self._over, self._seconds = over, seconds
        self._thread = daemon_thread(self._beat, "rechannel-lease")

    def start(self) -> None:
        """Start the heartbeat."""
        self._thread.start()

    def _beat(self) -> None:
        while not self._over.wait(self._seconds):
            try:
                self._renew()
            except FencedError as error:
                self._replaced(error)
                return
            except Exception as error:
                self._trouble(LEASE, error)
            else:
                self._trouble(LEASE, None)


@contextmanager
def signs(renew: Callable[[], None], seconds: float = RENEW_SECONDS) -> Iterator[None]:
    """Renew the lease of a driver that opens: that may take longer than a lease is fresh.

    Signs end if it was replaced, which the driver finds out when it writes to the journal.
    """
    over = threading.Event()
    heart = Heartbeat(
        renew, over=over, replaced=lambda _replaced: None, trouble=unheard, seconds=seconds
    )
    heart.start()
    try:
        yield
    finally:
        over.set()


class Sentinel:
    """Looks whether tasks can still run, and tells once that they cannot."""

    def __init__(
        self,
        gone: Callable[[], str | None],
        *,
        over: threading.Event,
        tell: Callable[[str], None],
        starved: Callable[[], str | None] = lambda: None,
        trouble: Trouble = unheard,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        """gone: why nothing can run any more, or None. starved: why nothing can run now, or None."""
        self._gone, self._tell = gone, tell
        self._starved, self._trouble = starved, trouble
        self._over, self._seconds = over, seconds
        self._thread = daemon_thread(self._watch, "rechannel-sentinel")

    def start(self) -> None:
        """Start the sentinel."""
        self._thread.start()

    def _watch(self) -> None:
        looks = without = 0
        while not self._over.wait(self._seconds):
            why = self._gone()
            if why is not None:
                self._tell(why)
                return
            looks += 1
            if looks % COUNTED_EVERY == 0:
                without = self._counted(without)

    def _counted(self, without: int) -> int:
        """Return how many counts in a row have found no executor; report the trouble, and its end.

        without: how many had before this one.
        """
        try:
            why = self._starved()
        except Exception:  # as when the session ends: not known
            return without
        if why is None:
            if without >= TOLD_AFTER:
                self._trouble(EXECUTORS, None)
            return 0
        if without + 1 == TOLD_AFTER:
            seconds = TOLD_AFTER * COUNTED_EVERY * self._seconds
            msg = f"{why} for {seconds:g} s: timesteps wait for one"
            self._trouble(EXECUTORS, ClusterError(msg))
        return without + 1
