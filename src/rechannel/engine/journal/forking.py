"""Fork: another state directory begins at a savepoint of this one. Pure.

What belongs to the one who wrote it stays behind: sinks and what they are owed, the name in which paths are claimed,
controllers, open changes. The note `fork` says where the origin writes, so that the fork does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.engine.journal.entries import Beginning
from rechannel.engine.journal.incarnations import NOTE as INCARNATIONS
from rechannel.engine.journal.incarnations import SINKS, members_of
from rechannel.engine.journal.kept import Savepoint
from rechannel.errors import RefusedError
from rechannel.model.codec import Json
from rechannel.state.manifest import Edit

NOTE = "fork"
"""Kind of the note in the journal of a fork: `origin`, `savepoint`, and `sinks` of the origin: by name, their places
(null of one without)."""

_CARRIED = ("program", INCARNATIONS)
"""Kinds of notes that a fork begins with."""


def beginning_of(savepoint: Savepoint, name: str, origin: str) -> Beginning:
    """Return what a fork begins with. name: of the savepoint. origin: its state directory."""
    notes: dict[str, Any] = {k: savepoint.notes[k] for k in _CARRIED if k in savepoint.notes}
    members = notes.get(INCARNATIONS) or {}
    before = savepoint.notes.get(NOTE) or {}
    sinks = {sink: one.get("place") for sink, one in members.get(SINKS, {}).items()}
    if members:
        notes[INCARNATIONS] = {**members, SINKS: {}}
    # A fork of a fork keeps off the sinks of both.
    notes[NOTE] = {
        "origin": origin,
        "savepoint": name,
        "sinks": {**before.get("sinks", {}), **sinks},
    }
    return Beginning(
        origin=origin,
        savepoint=name,
        timestep=savepoint.timestep,
        stream_ms=savepoint.version.stream_ms,
        edits={n: Edit(add=m.runs) for n, m in savepoint.version.manifests.items()},
        times=savepoint.version.times,
        offsets=savepoint.offsets,
        configuration=savepoint.configuration,
        notes=notes,
    )


def check_outputs(dataflow: Dataflow, notes: Mapping[str, Json]) -> None:
    """Raise RefusedError if a sink of a fork may write to where its origin writes."""
    known = notes.get(NOTE)
    if known is None:
        return
    theirs: Mapping[str, str | None] = known["sinks"]
    places = {place for place in theirs.values() if place is not None}
    for name, facts in members_of(dataflow)[SINKS].items():
        place = facts.get("place")
        if place in places:
            msg = (
                f"sink {name!r} writes to {place}, and so does the job that this state directory was forked from"
                f" ({known['origin']}): give the fork a place of its own"
            )
            raise RefusedError(msg)
        if place is None and name in theirs:
            msg = (
                f"sink {name!r} has no place that could be compared, and may write to where the job writes that this"
                f" state directory was forked from ({known['origin']}): make sure that it does not, and give it another"
                " name"
            )
            raise RefusedError(msg)
