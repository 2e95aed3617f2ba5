"""Sinks that go into quarantine and come out of it: the journal records it, and the troubles of the job tell it."""

from __future__ import annotations

import threading

from rechannel.engine.journal.entries import Note
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.quarantine import NOTE, put_in, quarantined, released
from rechannel.engine.publish.lane import Lane
from rechannel.errors import StorageError
from rechannel.telemetry.troubles import Trouble


class Quarantining:
    """Keeps the note `quarantine`. Any thread may call it."""

    def __init__(self, journal: Journal, trouble: Trouble) -> None:
        """trouble: hears of sinks in quarantine."""
        self._journal, self._trouble = journal, trouble
        self._noting = threading.Lock()

    def reason(self, lane: Lane) -> str:
        """Why a sink is in quarantine; "" where it is not."""
        return str(quarantined(self._journal.state.notes).get(lane.key, {}).get("reason", ""))

    def put_in(self, lane: Lane, timestep: int, reason: str) -> None:
        """It takes nothing from a timestep on."""
        with self._noting:
            notes = self._journal.state.notes
            note = put_in(notes, lane.key, sink=lane.name, timestep=timestep, reason=reason)
            self._journal.append(Note(kind=NOTE, body=note))
        self.tell(lane, reason)

    def tell(self, lane: Lane, reason: str) -> None:
        """It is in quarantine still."""
        how = f"in quarantine, owes its timesteps until job.release({lane.name!r})"
        self._trouble(f"sink {lane.name}", StorageError(f"{how}: {reason}"))

    def let_out(self, lane: Lane) -> None:
        """It takes timesteps again, or never will."""
        self._forget(lane.key)
        self._trouble(f"sink {lane.name}", None)

    def forget_others(self, present: set[str]) -> None:
        """Forget those that are gone."""
        for who in quarantined(self._journal.state.notes).keys() - present:
            self._forget(who)

    def _forget(self, who: str) -> None:
        with self._noting:
            note = released(self._journal.state.notes, who)
            self._journal.append(Note(kind=NOTE, body=note))
