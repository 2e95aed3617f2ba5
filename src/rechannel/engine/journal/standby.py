"""A driver that stands by: when has the one that runs ended? Pure, but for `wait`, which reads and sleeps.

The heartbeats of the holder carry its clock, and that may be wrong by more than a lease lasts. A driver that stands by
therefore goes by its own clock: a holder has ended when its lease is given back, when its process is gone (in the same
process table), or when the lease has not changed for `FRESH_MS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rechannel.engine.journal.lease import FRESH_MS, Holder, Where, holds, read_lease
from rechannel.errors import NotPermittedError, StorageError
from rechannel.state.store import Store

POLL_S = 1.0
"""Between two looks at the lease."""


@dataclass(kw_only=True)
class Standby:
    """What a driver that stands by has seen of the lease."""

    where: Where
    """Its own host and process table."""
    started: Callable[[int], int | None]
    """As of `Lease.acquire`."""
    seen: Holder | None = None
    """The holder at the last look."""
    _since_ms: float = 0.0

    def forget(self) -> None:
        """Begin anew: the lease could not be read, and perhaps not be written either."""
        self.seen = None

    def is_free(self, present: Holder | None, now_ms: float) -> bool:
        """Return whether no driver runs. present: the lease now. now_ms: of a clock that never jumps."""
        if present != self.seen:
            self.seen, self._since_ms = present, now_ms
        if present is None or not holds(present, self.where, present.heartbeat_ms, self.started):
            return True
        return now_ms - self._since_ms >= FRESH_MS


def wait(
    store: Store,
    standby: Standby,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    stop: Callable[[], bool],
    tell: Callable[[Holder], None],
) -> bool:
    """Wait until no driver runs. A store that cannot be read tells nothing, and is read again.

    clock: milliseconds, without jumps. stop: whether to give up. tell: called with each new holder.
    Returns False if `stop` said so. Raises NotPermittedError for a store that may not be read.
    """
    told: tuple[str, int, int] | None = None
    while not stop():
        try:
            present = read_lease(store)
        except NotPermittedError:
            raise
        except StorageError:
            standby.forget()
            sleep(POLL_S)
            continue
        if standby.is_free(present, clock()):
            return True
        if present is not None and (who := (present.host, present.pid, present.epoch)) != told:
            told = who
            tell(present)
        sleep(POLL_S)
    return False
