"""Incarnations: which source, sink or operator of a name is meant. Pure.

A name comes back: a sink is removed while it owes timesteps, and another one is added under its name. So the journal
counts those who bear names. The rules:

- A member that is new, at a start or at a change while the job runs, gets an id with the next serial ("sink-12").
- An id stays as long as the name is in the program and, where a place is known (a path), as long as that is the same.
- Removal forgets the id; no serial is ever given again.

The note `incarnations` holds `{"serial": n, "sources": {name: {"id": ..., "since": t}}, "sinks": {...},
"operators": {...}}`. since: the first timestep that was planned with it, and is not withdrawn; 0 where
the journal did not count yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rechannel.dataflow.graph import Dataflow, Sink, Stateful
from rechannel.engine.journal.quarantine import owed
from rechannel.errors import RefusedError
from rechannel.model.codec import Json

if TYPE_CHECKING:
    from rechannel.engine.journal.state import JournalState

NOTE = "incarnations"
"""Kind of the note in the journal."""

SOURCES, SINKS, OPERATORS = "sources", "sinks", "operators"
_WORDS = {SOURCES: "source", SINKS: "sink", OPERATORS: "operator"}

Members = Mapping[str, Mapping[str, Mapping[str, Json]]]
"""By kind and name, what is told about the member of that name. `place` is part of who it is; the rest is not."""


def members_of(dataflow: Dataflow) -> Members:
    """All who bear names in a dataflow: sources, sinks, operators with state."""
    return {
        SOURCES: {str(node.name): {} for node in dataflow.nodes if hasattr(node, "connector")},
        SINKS: {str(n.name): _place(n) for n in dataflow.nodes if isinstance(n, Sink)},
        OPERATORS: {str(n.name): {} for n in dataflow.nodes if isinstance(n, Stateful)},
    }


def _place(sink: Sink) -> Mapping[str, Json]:
    """Where files go; other sinks are what their name says."""
    path = getattr(sink.outlet, "path", None)
    return {} if path is None else {"place": path}


def counted(known: Json, members: Members, since: int) -> dict[str, Json]:
    """The note for a program. known: the note so far, or None. since: the first timestep that is planned with it."""
    serial = known["serial"] if known else 0
    note: dict[str, Json] = {}
    for kind, word in _WORDS.items():
        before = known.get(kind, {}) if known else {}
        note[kind] = {}
        for name, told in sorted(members.get(kind, {}).items()):
            one = before.get(name)
            if one is None or one.get("place") != told.get("place"):
                serial += 1
                one = {"id": f"{word}-{serial}", "since": since if known else 0}
            note[kind][name] = {**told, "id": one["id"], "since": one["since"]}
    return {"serial": serial, **note}


def withdrawn(notes: Mapping[str, Json], from_timestep: int) -> dict[str, Json]:
    """The notes when timesteps from one on are planned anew: with everything that the program has by then."""
    known = notes.get(NOTE)
    if known is None:
        return dict(notes)
    note: dict[str, Json] = {"serial": known["serial"]}
    for kind in _WORDS:
        note[kind] = {
            name: {**one, "since": min(one["since"], from_timestep)}
            for name, one in known.get(kind, {}).items()
        }
    return {**notes, NOTE: note}


def note_of(state: JournalState, dataflow: Dataflow) -> dict[str, Json] | None:
    """The note of a driver that starts with a dataflow; None where the journal says so already.

    Raises RefusedError where a sink has another path and owes timesteps to the one before.
    """
    known = state.notes.get(NOTE)
    note = counted(known, members_of(dataflow), (state.last_intended or 0) + 1)
    _check_moved(state, known or {}, note)
    return None if note == known else note


def _check_moved(state: JournalState, known: Mapping[str, Json], note: Mapping[str, Json]) -> None:
    for name, one in note[SINKS].items():
        before = known.get(SINKS, {}).get(name, one)
        if before["id"] != one["id"] and (left := sorted(owed(state, name, before["id"]))):
            msg = (
                f"sink {name!r} writes to {one.get('place')} now, and has timesteps {left[0]} to {left[-1]} still to"
                f" write to {before.get('place')}: start once with that path, so that it does, or give the sink another"
                " name: then they are given up"
            )
            raise RefusedError(msg)


def ids(note: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """Ids of one kind, by name, as a note says."""
    return {name: one["id"] for name, one in note[kind].items()}


def operators_of(dataflow: Dataflow, notes: Mapping[str, Json]) -> dict[str, Json]:
    """Ids of the operators of a dataflow that starts, by name."""
    return ids(counted(notes.get(NOTE), members_of(dataflow), 0), OPERATORS)


def incarnation(notes: Mapping[str, Json], kind: str, name: str) -> str:
    """Id of the member that bears a name now; "" where the journal does not say."""
    found: str = _told(notes, kind, name).get("id", "")
    return found


def since(notes: Mapping[str, Json], kind: str, name: str) -> int:
    """The first timestep that was planned with the member that bears a name now; 0 where the journal does not say."""
    found: int = _told(notes, kind, name).get("since", 0)
    return found


def inherited(
    offsets: Mapping[str, Json], before: Mapping[str, Json], after: Mapping[str, Json]
) -> dict[str, Json]:
    """Offsets of the sources that bear their names before and after a note: those of others are forgotten."""
    if NOTE not in after:
        return dict(offsets)
    return {
        name: offset
        for name, offset in offsets.items()
        if (now := incarnation(after, SOURCES, name))
        and incarnation(before, SOURCES, name) in {"", now}
    }


def _told(notes: Mapping[str, Json], kind: str, name: str) -> Mapping[str, Json]:
    note = notes.get(NOTE) or {}
    found: Mapping[str, Json] = note.get(kind, {}).get(name, {})
    return found
