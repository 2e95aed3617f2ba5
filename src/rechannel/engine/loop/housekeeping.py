"""Files that nothing refers to any more are removed, off the critical path."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Protocol

from rechannel.engine.journal.log import OWED_PER_COMMIT, Journal
from rechannel.engine.journal.referenced import unreferenced
from rechannel.engine.journal.state import JournalState
from rechannel.spare_memory import SpareMemory, of_the_c_library
from rechannel.state.keys import SEGMENTS, SINK_BUFFERS, segments_of, timestep_of
from rechannel.state.store import Store
from rechannel.telemetry.troubles import Trouble, unheard
from rechannel.threads import AtOnce, DaemonThreads

LEFT_S = 2.0
"""What is left to a sweep when the job ends."""
HOUSEKEEPING = "housekeeping"
"""Topic of the troubles that sweeps have."""


class Thread(Protocol):
    """What housekeeping asks of a thread."""

    def start(self) -> None:
        """Run beside the others from now on."""

    def is_alive(self) -> bool:
        """Whether it has still to end."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""


class Housekeeper:
    """Deletes segments and sink-buffer files that no kept version names, in a thread of its own.

    It runs every `every` commits, and less often if sinks owe many timesteps.
    """

    def __init__(
        self,
        store: Store,
        journal: Journal,
        every: int,
        filling: Callable[[], frozenset[str]] = frozenset,
        held: Callable[[], frozenset[str]] = frozenset,
        *,
        thread: Callable[..., Thread] = threading.Thread,
        trouble: Trouble = unheard,
        side_by_side: int = 1,
    ) -> None:
        """Take the parts; nothing runs yet.

        filling, held, side_by_side: see `sweep`. thread: makes a thread that is not started. trouble: told how every
        sweep went.
        """
        self._thread = thread
        self._trouble = trouble
        self._filling = filling
        self._held = held
        self._store = store
        self._journal = journal
        self._every = every
        self._commits = 0
        self._deleting = (
            DaemonThreads(side_by_side, "rechannel-delete") if side_by_side > 1 else AtOnce()
        )
        """The same threads for all sweeps: a new one begins with an arena of its own."""
        self._side_by_side = side_by_side
        self._spare = SpareMemory(of_the_c_library)
        self._stop = threading.Event()
        self._running: Thread | None = None

    def tick(self, unread: Callable[[], int | None]) -> None:
        """Count a commit; sweep when it is time and the last sweep is over. unread: see `sweep`.

        A sweep lists all files that sinks are owed, so sweeps are rarer if these are many, as snapshots are.
        """
        self._commits += 1
        due = self._every + len(self._journal.state.unpublished) // OWED_PER_COMMIT
        if self._commits < due or (self._running and self._running.is_alive()):
            return
        self._commits = 0
        self._running = self._thread(
            target=self._guarded, args=(unread,), name="rechannel-sweep", daemon=True
        )
        self._running.start()

    def _guarded(self, unread: Callable[[], int | None]) -> None:
        try:
            journal = self._journal
            sweep(
                self._store,
                lambda: journal.state,
                unread,
                self._filling,
                self._held,
                deleting=self._deleting,
                side_by_side=self._side_by_side,
                stop=self._stop.is_set,
            )
        except BaseException as error:
            self._trouble(HOUSEKEEPING, error)
        else:
            self._trouble(HOUSEKEEPING, None)
        self._spare.give_back()

    def finish(self) -> None:
        """Wait for a sweep under way. A long one ends soon, and leaves the rest to the next driver's."""
        if self._running is not None:
            self._running.join(timeout=LEFT_S)
            self._stop.set()
            self._running.join(timeout=60)
        self._deleting.shutdown(wait=False)


def sweep(
    store: Store,
    state: Callable[[], JournalState],
    unread: Callable[[], int | None],
    filling: Callable[[], frozenset[str]] = frozenset,
    held: Callable[[], frozenset[str]] = frozenset,
    *,
    deleting: Executor | None = None,
    side_by_side: int = 1,
    stop: Callable[[], bool] = bool,
) -> int:
    """Delete what no kept version and no unpublished timestep names; the number of files deleted.

    unread: oldest timestep that a sink has still to read. The journal does not know it of sinks
    that are not durable, and these may lag by more timesteps than versions are kept.
    filling: operators that are going to be added, whose state is written and not named yet.
    held: files that are being read (`pinned.Pinned`); asked when the state has been read.
    deleting: makes the requests to the store, as many at a time as `side_by_side`.
    stop: whether to leave the rest to the next sweep.
    Keys are listed before the state is read: what is written meanwhile is not in the list, what is
    committed meanwhile is in the state, and so is what has just begun to run and is not waited for
    any more. Sinks are asked last: what they have not been given by then is of a version that the
    state keeps.
    """
    keys = [*store.list(SEGMENTS), *store.list(SINK_BUFFERS)]
    ahead = tuple(segments_of(operator) for operator in filling())
    now = state()
    waiting = _unpublished(now.unpublished) | held()
    since = unread()
    gone = [
        key
        for key in unreferenced(now, keys)
        if key not in waiting and not _still_read(key, since) and not key.startswith(ahead)
    ]
    done, each = 0, (deleting or AtOnce()).map
    while done < len(gone) and not stop():
        done += len([*each(store.delete, gone[done : done + side_by_side])])
    return done


def _still_read(key: str, since: int | None) -> bool:
    """Return whether it is a sink-buffer file of this timestep or a later one; sinks read no segments."""
    timestep = timestep_of(key) if key.startswith(SINK_BUFFERS) else None
    return since is not None and timestep is not None and timestep >= since


def _unpublished(staged: Mapping[int, Mapping[str, Mapping[str, object]]]) -> set[str]:
    out: set[str] = set()
    for sinks in staged.values():
        for what in sinks.values():
            sink_buffer = what.get("outbox")
            if isinstance(sink_buffer, Mapping):
                out.update(key for keys in sink_buffer.values() for key in keys)
    return out
