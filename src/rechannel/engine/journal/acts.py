"""What was done to a state directory beside its timesteps and reconfigurations, for the history. Pure.

The note `acts` holds the latest ones, oldest first. The fold makes it: what does something also notes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rechannel.engine.journal.entries import ConfigurationChanged
from rechannel.model.codec import Json

NOTE = "acts"
"""Kind of the note in the journal: a list of `kind`, `time_ms`, `timestep` (the latest committed one), `what`, and
`cause`."""

KEPT = 256
"""Acts that are kept, the latest ones."""

PROGRAM = "program"
"""Kind of the note that has the versions of the program."""


def acts_of(notes: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """Return the acts that are kept, oldest first."""
    found: Sequence[Mapping[str, Json]] = notes.get(NOTE) or ()
    return found


def with_act(
    notes: Mapping[str, Json],
    kind: str,
    *,
    time_ms: int,
    timestep: int | None,
    what: str,
    cause: str = "",
) -> dict[str, Json]:
    """Return notes with one more act."""
    act = {"kind": kind, "time_ms": time_ms, "timestep": timestep, "what": what, "cause": cause}
    return {**notes, NOTE: [*acts_of(notes), act][-KEPT:]}


def upgrade_in(body: ConfigurationChanged) -> str | None:
    """Return what an upgrade does, in words, if the entry is one; else None."""
    known: Mapping[str, Any] = body.notes.get(PROGRAM) or {}
    record = known.get(str(body.configuration.dataflow))
    if record is None or not record.get("at_start") or "back_to" in record:
        return None
    names = f", {dict(body.renamed)} have new names" if body.renamed else ""
    return f"version {body.configuration.dataflow} of the program took over at a start{names}"
