"""Files that nothing refers to any more are removed, off the critical path."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from rechannel.engine.journal import Journal
from rechannel.engine.journal_state import JournalState, unreferenced
from rechannel.state.keys import OUTBOX, SEGMENTS
from rechannel.state.store import Store


class Housekeeper:
    """Every `every` commits, deletes segments and outbox files that no kept version names, in a thread of its own."""

    def __init__(self, store: Store, journal: Journal, every: int) -> None:
        """Take the parts; nothing runs yet."""
        self._store = store
        self._journal = journal
        self._every = every
        self._commits = 0
        self._running: threading.Thread | None = None
        self.error: BaseException | None = None

    def tick(self) -> None:
        """Count a commit; sweep when it is time and the last sweep is over."""
        self._commits += 1
        if self._commits % self._every or (self._running and self._running.is_alive()):
            return
        self._running = threading.Thread(target=self._guarded, name="rechannel-sweep", daemon=True)
        self._running.start()

    def _guarded(self) -> None:
        try:
            sweep(self._store, lambda: self._journal.state)
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        """Wait for a sweep under way."""
        if self._running is not None:
            self._running.join(timeout=60)


def sweep(store: Store, state: Callable[[], JournalState]) -> int:
    """Delete what no kept version and no unpublished timestep names; the number of files deleted.

    Keys are listed before the state is read: what is written meanwhile is not in the list, what is committed
    meanwhile is
    in the state.
    """
    keys = [*store.list(SEGMENTS), *store.list(OUTBOX)]
    now = state()
    waiting = _unpublished(now.unpublished)
    gone = [key for key in unreferenced(now, keys) if key not in waiting]
    for key in gone:
        store.delete(key)
    return len(gone)


def _unpublished(staged: Mapping[int, Mapping[str, Mapping[str, object]]]) -> set[str]:
    out: set[str] = set()
    for sinks in staged.values():
        for what in sinks.values():
            outbox = what.get("outbox")
            if isinstance(outbox, Mapping):
                out.update(key for keys in outbox.values() for key in keys)
    return out
