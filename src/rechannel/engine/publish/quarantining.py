"""Put sinks into quarantine and release them: the journal records it, and the job's troubles show it."""

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
        """trouble: receives the sinks in quarantine."""
        self._journal, self._trouble = journal, trouble
        self._noting = threading.Lock()

    def reason(self, lane: Lane) -> str:
        """Return why a sink is in quarantine; empty if it is not."""
        return str(quarantined(self._journal.state.notes).get(lane.key, {}).get("reason", ""))

    def put_in(self, lane: Lane, timestep: int, reason: str) -> None:
        """Put a sink into quarantine: it accepts nothing from a timestep on."""
        with self._noting:
            notes = self._journal.state.notes
            note = put_in(notes, lane.key, sink=lane.name, timestep=timestep, reason=reason)
            self._journal.append(Note(kind=NOTE, body=note))
        self.tell(lane, reason)

    def tell(self, lane: Lane, reason: str) -> None:
        """Report that a sink is in quarantine."""
        how = f"in quarantine, owes its timesteps until job.release({lane.name!r})"
        self._trouble(f"sink {lane.name}", StorageError(f"{how}: {reason}"))

    def let_out(self, lane: Lane) -> None:
        """End the quarantine of a sink that accepts timesteps again, or is gone."""
        self._forget(lane.key)
        self._trouble(f"sink {lane.name}", None)

    def forget_others(self, present: set[str]) -> None:
        """Remove the notes of sinks that are gone."""
        for who in quarantined(self._journal.state.notes).keys() - present:
            self._forget(who)

    def _forget(self, who: str) -> None:
        with self._noting:
            notes = self._journal.state.notes
            if who in quarantined(notes):
                self._journal.append(Note(kind=NOTE, body=released(notes, who)))
