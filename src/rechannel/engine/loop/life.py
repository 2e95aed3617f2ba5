"""A job's threads from its start to its end: the loop, the signs of the lease, and the look at what runs the tasks.

The end comes once, whichever thread brings it, and it always comes: nothing that hangs or fails keeps those who wait
for it from hearing of it.
"""

from __future__ import annotations

import threading

from rechannel.engine.failures.closing import GONE_SECONDS, SECONDS, close_all
from rechannel.engine.journal.lease import Lease
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.driver import Driver
from rechannel.engine.loop.heartbeat import Heartbeat, Sentinel
from rechannel.engine.loop.housekeeping import Housekeeper
from rechannel.errors import gone_error
from rechannel.telemetry.hub import Hub
from rechannel.threads import daemon_thread

GRACE_SECONDS = 5.0
"""How long a driver whose Spark has died may take to end by itself."""


class Life:
    """Runs a driver. over: set when everything is put away."""

    def __init__(
        self,
        name: str,
        *,
        driver: Driver,
        journal: Journal,
        housekeeper: Housekeeper,
        lease: Lease,
        hub: Hub,
        renew_seconds: float,
    ) -> None:
        """Take the parts; nothing runs yet."""
        self.over = threading.Event()
        self._driver, self._housekeeper, self._lease, self._hub = driver, housekeeper, lease, hub
        self._ending = threading.Lock()
        self._thread = daemon_thread(self._body, f"rechannel-{name}")
        self._heart = Heartbeat(
            lambda: lease.renew(journal.fenced),
            over=self.over,
            replaced=driver.fail,
            trouble=hub.troubles,
            seconds=renew_seconds,
        )
        self._sentinel = Sentinel(
            driver.gone,
            over=self.over,
            tell=self._gone,
            starved=driver.starved,
            trouble=hub.troubles,
        )

    def start(self) -> None:
        """Start the loop, the heartbeat and the sentinel."""
        self._thread.start()
        self._heart.start()
        self._sentinel.start()

    def _body(self) -> None:
        try:
            self._driver.run()
        finally:
            self._end()

    def _end(self) -> None:
        """Put everything away, and tell those who wait; once."""
        with self._ending:
            if self.over.is_set():
                return
            try:
                close_all(
                    [
                        ("housekeeping", self._housekeeper.finish),
                        ("the lease", self._lease.release),
                        ("telemetry", lambda: self._hub.close(self._driver.error)),
                    ],
                    SECONDS if self._driver.gone() is None else GONE_SECONDS,
                )
            finally:
                self.over.set()

    def _gone(self, why: str) -> None:
        """Nothing can run any more: the driver ends, and if it hangs in a call that is never answered, without it."""
        error = gone_error(why)
        self._driver.fail(error)
        if not self._driver.finished.wait(GRACE_SECONDS):
            self._driver.abandon(error)
        self._end()
