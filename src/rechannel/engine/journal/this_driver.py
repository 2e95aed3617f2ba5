"""How this driver identifies itself in the lease, in the journal and in the paths of sinks."""

from __future__ import annotations

import os
import socket

from rechannel.engine.journal.entries import Opened
from rechannel.engine.journal.lease import Holder, process_started, process_table
from rechannel.engine.journal.state import JournalState
from rechannel.sinks.claims import Ledger
from rechannel.version import __version__


def this_holder() -> Holder:
    """Return this process as a holder of the lease."""
    pid = os.getpid()
    return Holder(
        host=socket.gethostname(),
        pid=pid,
        started_ms=process_started(pid) or 0,
        epoch=0,
        heartbeat_ms=0,
        table=process_table(),
    )


def this_opened(*, fingerprint: str, time_ms: int, id: str) -> Opened:  # noqa: A002 - the entry's word
    """Return the entry with which this process takes over. fingerprint: of the program. id: drawn by the caller."""
    return Opened(
        host=socket.gethostname(),
        pid=os.getpid(),
        time_ms=time_ms,
        fingerprint=fingerprint,
        version=__version__,
        id=id,
    )


def ledger_of(state: JournalState, opening: str, *, remove_later: bool = False) -> Ledger:
    """Return what sinks must know about the journal when they open. opening: id of this driver's `Opened`, or ""."""
    return Ledger(
        opening=opening,
        epoch=state.epoch,
        openings=state.drivers,
        committed=state.last_committed or 0,
        digests=state.digests,
        remove_later=remove_later,
    )
