"""What notes do: the latest body of each kind is kept. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from rechannel.engine.journal.entries import Note, Notes
from rechannel.engine.journal.incarnations import inherited
from rechannel.engine.journal.state import JournalState


def noted(state: JournalState, body: Note) -> JournalState:
    """Keep the body of a note in place of the one before; None = keep none."""
    others = {kind: value for kind, value in state.notes.items() if kind != body.kind}
    notes = others if body.body is None else {**others, body.kind: body.body}
    offsets = inherited(state.offsets, state.notes, notes)
    return replace(state, notes=notes, offsets=offsets)


def all_noted(state: JournalState, body: Notes) -> JournalState:
    """Keep the bodies of several notes."""
    for kind, note in body.bodies.items():
        state = noted(state, Note(kind=kind, body=note))
    return state
