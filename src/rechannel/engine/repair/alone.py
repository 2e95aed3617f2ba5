"""Entries that a process writes which drives nothing: it takes the lease, opens an epoch, and closes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rechannel.engine.journal.entries import Body, Closed, Opened
from rechannel.engine.journal.lease import Holder, Lease
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.errors import StateInUseError
from rechannel.state.store import Store
from rechannel.version import __version__

WRITTEN_MEANWHILE = (
    "another process has written to the state directory meanwhile, and nothing was changed: ask again once no driver"
    " runs"
)

NEVER = 1 << 62
"""Commits between two snapshots: none is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """The process that writes. id: a random word. holder, clock, started: see `Lease.acquire`."""

    holder: Holder
    id: str
    clock: Callable[[], int]
    started: Callable[[int], int | None]


@contextmanager
def lease_of(store: Store, hand: Hand) -> Iterator[Lease]:
    """Hold the lease. A caller that needs longer than a lease stays fresh renews it.

    Raises StateInUseError while a driver runs.
    """
    lease = Lease.acquire(store, hand.holder, clock=hand.clock, started=hand.started)
    try:
        yield lease
    finally:
        lease.release()


def write_alone(
    store: Store, hand: Hand, asked: Callable[[JournalState], Sequence[Body]]
) -> JournalState:
    """Write what `asked` answers to the present state, under the lease; return the state after it.

    What it raises, it raises before anything is written. Raises StateInUseError while a driver runs.
    """
    with lease_of(store, hand):
        state = read_only(store)
        return append_alone(store, hand, state, asked(state))


def append_alone(
    store: Store, hand: Hand, state: JournalState, bodies: Sequence[Body]
) -> JournalState:
    """Write entries in an epoch of their own, right after those of `state`. The lease is held.

    Raises StateInUseError if another process has written to the journal since; none of the entries is written then.
    """
    if not bodies:
        return state
    driver = state.driver
    keep = driver.keep_versions if driver else 1
    journal, _ = Journal.open(store, keep_versions=keep, snapshot_every=NEVER)
    _check_next(journal.state, state.number)
    opened = journal.append(
        Opened(
            host=hand.holder.host,
            pid=hand.holder.pid,
            time_ms=hand.clock(),
            fingerprint=driver.fingerprint if driver else "",
            version=__version__,
            id=hand.id,
        )
    )
    try:
        _check_next(opened, state.number + 1)
        for body in bodies:
            journal.append(body)
    except StateInUseError:
        journal.append(Closed(time_ms=hand.clock()))
        raise
    return journal.append(Closed(time_ms=hand.clock()))


def _check_next(present: JournalState, number: int) -> None:
    if present.number != number:
        raise StateInUseError(WRITTEN_MEANWHILE)
