"""Which brokers a client has lost, by what it says of its connections.

A client that knows the coordinator of a group asks no other one while that is away, and its call waits for as long,
whatever its time-out (librdkafka issue 5456). New producers ask who it is now: so a broker that was lost makes them
worth while, once. A client names a broker again and again while that is away.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

AGAIN_S = 120.0
"""A broker of which the client has said nothing for so long was there again. While one is away, it says so at least
every 30 s."""

_ADDRESS = re.compile(r"Connect to (?:ipv[46]#)?(\S+) failed")


class LostBrokers:
    """What the producers of a sink have said. The callback comes in the thread that polls them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: in seconds; only differences count."""
        self._clock, self._said_s = clock, dict[str, float]()
        self.new = False
        """Whether a broker was lost since `renewed`."""

    def renewed(self) -> None:
        """Note that there are new producers."""
        self.new = False

    def note(self, error: Any) -> None:
        """Note what the client says: a callback of it (`error_cb`)."""
        if error.code() not in {error._TRANSPORT, error._ALL_BROKERS_DOWN}:
            return
        found, now = _ADDRESS.search(error.str()), self._clock()
        broker = found[1] if found else ""
        if now - self._said_s.get(broker, now - 2 * AGAIN_S) > AGAIN_S:
            self.new = True
        self._said_s[broker] = now
