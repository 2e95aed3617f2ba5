"""Savepoints of a running job. The caller's thread writes the entry; the driver's thread does not wait for it."""

from __future__ import annotations

from collections.abc import Callable

from rechannel.assembly import Parts
from rechannel.engine.journal.entries import SavepointDropped, SavepointMade
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.savepoints import dropping, making, savepoints_of
from rechannel.engine.journal.state import JournalState
from rechannel.monitoring import SavepointStatus
from rechannel.reconfigure.arguments import check_words

_ATTEMPTS = 100
"""Commits that may come between the look at the journal and the entry."""


def make(parts: Parts, name: str, cause: str) -> SavepointStatus:
    """Name the latest committed timestep. Raises RefusedError, NotReadyError."""
    check_words(cause, "cause")
    state = _append(parts.journal, lambda now: making(now, name, int(parts.hub.now_ms), cause))
    return savepoints_of(state)[name]


def drop(parts: Parts, name: str, cause: str) -> None:
    """Drop a savepoint. Raises NotReadyError if there is none."""
    check_words(cause, "cause")
    _append(parts.journal, lambda now: dropping(now, name, int(parts.hub.now_ms), cause))


def _append(
    journal: Journal, asked: Callable[[JournalState], SavepointMade | SavepointDropped]
) -> JournalState:
    """Write an entry that fits the state of the moment: the driver commits meanwhile."""
    for _ in range(_ATTEMPTS):
        seen = journal.state
        body = asked(seen)
        try:
            return journal.append(body)
        except ValueError:
            if journal.state.number == seen.number:
                raise
    return journal.append(asked(journal.state))
