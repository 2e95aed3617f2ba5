"""Fork: another state directory begins at a savepoint of this one. Pure.

What belongs to the one who wrote it stays behind: sinks and what they are owed, the name in which paths are claimed,
controllers, open changes. The note `fork` says where the origin writes, so that the fork does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
"""Kind of the note in the journal of a fork: `origin`, `savepoint`, and `sinks` of the origin, as of the savepoint
and as of the fork: pairs of a name and a place (null of one without)."""

_CARRIED = ("program", INCARNATIONS)
"""Kinds of notes that a fork begins with."""


def beginning_of(
    savepoint: Savepoint, name: str, origin: str, now: Mapping[str, Json]
) -> Beginning:
    """Return what a fork begins with.

    name: of the savepoint. origin: its state directory. now: the notes of its journal at the time of the fork.
    """
    notes: dict[str, Any] = {k: savepoint.notes[k] for k in _CARRIED if k in savepoint.notes}
    members = notes.get(INCARNATIONS) or {}
    if members:
        notes[INCARNATIONS] = {**members, SINKS: {}}
    sinks = [list(one) for one in dict.fromkeys([*_sinks(savepoint.notes), *_sinks(now)])]
    notes[NOTE] = {"origin": origin, "savepoint": name, "sinks": sinks}
    return Beginning(
        origin=origin,
        savepoint=name,
        timestep=savepoint.timestep,
        stream_ms=savepoint.version.stream_ms,
        edits={n: Edit(add=tuple(m.runs)) for n, m in savepoint.version.manifests.items()},
        times=savepoint.version.times,
        offsets=savepoint.offsets,
        configuration=savepoint.configuration,
        notes=notes,
    )


def _sinks(notes: Mapping[str, Json]) -> Iterator[tuple[str, str | None]]:
    """Yield names and places of the sinks that a fork keeps off: those of its origin, and of the origin of that."""
    yield from ((sink, place) for sink, place in (notes.get(NOTE) or {}).get("sinks", ()))
    members = notes.get(INCARNATIONS) or {}
    yield from ((sink, one.get("place")) for sink, one in members.get(SINKS, {}).items())


def check_outputs(dataflow: Dataflow, notes: Mapping[str, Json]) -> None:
    """Raise RefusedError if a sink of a fork may write to where its origin writes."""
    known = notes.get(NOTE)
    if known is None:
        return
    theirs = {sink for sink, _ in known["sinks"]}
    places = {place for _, place in known["sinks"] if place is not None}
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
