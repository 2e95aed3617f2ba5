"""Sinks in quarantine, and what sinks owe: read from the journal's state. Pure.

The note `quarantine` holds, by incarnation, `{"sink": name, "timestep": the one it failed at, "reason": text}`.
What such a sink owes stays unpublished in the journal, and its sink-buffer files stay. Writing the note without the
sink releases it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rechannel.model.codec import Json

if TYPE_CHECKING:
    from rechannel.engine.journal.state import JournalState

NOTE = "quarantine"
"""Kind of the note in the journal."""


def quarantined(notes: Mapping[str, Json]) -> Mapping[str, Mapping[str, Json]]:
    """Return the sinks in quarantine, by incarnation."""
    found: Mapping[str, Mapping[str, Json]] = notes.get(NOTE) or {}
    return found


def put_in(
    notes: Mapping[str, Json], who: str, *, sink: str, timestep: int, reason: str
) -> dict[str, Json]:
    """Return the note with one more sink."""
    fact = {"sink": sink, "timestep": timestep, "reason": reason}
    return {**quarantined(notes), who: fact}


def released(notes: Mapping[str, Json], who: str) -> dict[str, Json] | None:
    """Return the note without a sink; None if no sink is left."""
    left = {other: fact for other, fact in quarantined(notes).items() if other != who}
    return left or None


def owed(state: JournalState, sink: str, who: str) -> dict[int, Mapping[str, Json]]:
    """Return what one incarnation of a sink still has to publish: what was staged, by timestep, in order.

    Older journals do not name incarnations: what they staged belongs to the sink of that name.
    """
    return {
        timestep: staged[sink]
        for timestep, staged in sorted(state.unpublished.items())
        if sink in staged and staged[sink].get("incarnation", who) == who
    }
