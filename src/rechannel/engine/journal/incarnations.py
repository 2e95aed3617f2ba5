"""Incarnations: which of several sources, sinks or operators with the same name is meant. Pure.

Names are reused: a sink may be removed while it owes timesteps, and another one added under its name. So the journal
numbers the members of a program. The rules:

- A new member, at a start or at a live change, gets an id with the next serial ("sink-12").
- An id stays as long as the name is in the program and, if the member has a place (a path, a topic, a table), as long
  as that is the same.
- Removal forgets the id; no serial is used twice.

The note `incarnations` holds `{"serial": n, "sources": {name: {"id": ..., "since": t}}, "sinks": {...},
"operators": {...}}`. since: the first timestep that was planned with the member and not withdrawn; 0 in journals from
before incarnations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rechannel.dataflow.graph.nodes import Dataflow, Sink, Source, Stateful
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
"""Facts about each member by kind and name. Only `place` is part of its identity."""


def members_of(dataflow: Dataflow) -> Members:
    """Return the members of a dataflow: sources, sinks, operators with state."""
    return {
        SOURCES: {str(node.name): {} for node in dataflow.nodes if isinstance(node, Source)},
        SINKS: {str(n.name): _place(n) for n in dataflow.nodes if isinstance(n, Sink)},
        OPERATORS: {str(n.name): {} for n in dataflow.nodes if isinstance(n, Stateful)},
    }


def _place(sink: Sink) -> Mapping[str, Json]:
    """Return where the rows of a sink stay, if they do."""
    home = sink.outlet.home
    return {} if home is None else {"place": home}


def counted(known: Json, members: Members, since: int) -> dict[str, Json]:
    """Return the incarnations note: members that are new or have another place get a new id, all others keep theirs.

    known: the present note, or None. since: the first timestep that is planned with these members.
    """
    serial = known["serial"] if known else 0
    note: dict[str, Json] = {}
    for kind, word in _WORDS.items():
        before = known.get(kind, {}) if known else {}
        note[kind] = {}
        for name, facts in sorted(members.get(kind, {}).items()):
            one = before.get(name)
            if one is None or one.get("place") != facts.get("place"):
                serial += 1
                one = {"id": f"{word}-{serial}", "since": since if known else 0}
            note[kind][name] = {**facts, "id": one["id"], "since": one["since"]}
    return {"serial": serial, **note}


def withdrawn(notes: Mapping[str, Json], from_timestep: int) -> dict[str, Json]:
    """Return the notes after timesteps from one on were withdrawn: they are planned anew with all present members."""
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


def renamed_note(known: Json, names: Mapping[str, str]) -> Json:
    """Return the note with new names of sources and operators. names: by old names. known: the note, or None."""
    if not known or not names:
        return known
    again = {
        kind: {names.get(name, name): one for name, one in known.get(kind, {}).items()}
        for kind in (SOURCES, OPERATORS)
    }
    return {**known, **again}


def note_of(
    state: JournalState, dataflow: Dataflow, renamed: Mapping[str, str] | None = None
) -> dict[str, Json] | None:
    """Return the note of a driver that starts with a dataflow; None if the journal has it already.

    renamed: new names of sources and operators, by old names. Raises RefusedError if a sink has a new place and owes
    timesteps to the old one.
    """
    known = state.notes.get(NOTE)
    before = renamed_note(known, renamed or {})
    note = counted(before, members_of(dataflow), (state.last_intended or 0) + 1)
    _check_moved(state, known or {}, note)
    return None if note == known else note


def _check_moved(state: JournalState, known: Mapping[str, Json], note: Mapping[str, Json]) -> None:
    for name, one in note[SINKS].items():
        before = known.get(SINKS, {}).get(name, one)
        if before["id"] != one["id"] and (left := sorted(owed(state, name, before["id"]))):
            msg = (
                f"sink {name!r} has a new place, {one.get('place')}, but still has to write timesteps"
                f" {left[0]} to {left[-1]} to {before.get('place')}: start once with that place, or give up these"
                " timesteps by giving the sink another name"
            )
            raise RefusedError(msg)


def ids(note: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """Return the ids of one kind in a note, by name."""
    return {name: one["id"] for name, one in note[kind].items()}


def operators_of(
    dataflow: Dataflow, notes: Mapping[str, Json], renamed: Mapping[str, str] | None = None
) -> dict[str, Json]:
    """Return the ids of the operators of a dataflow that starts, by name. renamed: see `note_of`."""
    known = renamed_note(notes.get(NOTE), renamed or {})
    return ids(counted(known, members_of(dataflow), 0), OPERATORS)


def incarnation(notes: Mapping[str, Json], kind: str, name: str) -> str:
    """Return the id of the member that has a name now; "" if the journal has none."""
    found: str = _told(notes, kind, name).get("id", "")
    return found


def since(notes: Mapping[str, Json], kind: str, name: str) -> int:
    """Return the first timestep that was planned with the member that has a name now; 0 if not recorded."""
    found: int = _told(notes, kind, name).get("since", 0)
    return found


def inherited(
    offsets: Mapping[str, Json], before: Mapping[str, Json], after: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the offsets of sources that keep their incarnation across a note; the others are forgotten."""
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
