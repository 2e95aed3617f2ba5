"""What savepoints, resets of sources and edits of state do, each of which the history shows. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from rechannel.engine.journal import acts
from rechannel.engine.journal.entries import (
    SavepointDropped,
    SavepointMade,
    SourceReset,
    StateEdited,
)
from rechannel.engine.journal.kept import Savepoint
from rechannel.engine.journal.state import JournalState
from rechannel.model.codec import Json
from rechannel.state.manifest import Manifest

MOST_SAVEPOINTS = 16
"""Savepoints at a time: every snapshot of the journal has all of them."""

_MOST_SHOWN = 300
"""Characters of an offset in the history."""


def saved(state: JournalState, body: SavepointMade) -> JournalState:
    """Keep the latest committed timestep under a name. Raises ValueError if it is taken, or for one too many."""
    if body.timestep != state.last_committed:
        msg = f"savepoint {body.name!r} of timestep {body.timestep}: the latest is {state.last_committed}"
        raise ValueError(msg)
    if body.name in state.savepoints or len(state.savepoints) >= MOST_SAVEPOINTS:
        msg = f"savepoint {body.name!r}: there is one, or there are {MOST_SAVEPOINTS} others"
        raise ValueError(msg)
    made = savepoint_of(state, body.time_ms, body.cause)
    what = f"savepoint {body.name!r}"
    return replace(
        state,
        savepoints={**state.savepoints, body.name: made},
        notes=acted(state, "savepoint", body.time_ms, what, body.cause),
    )


def dropped(state: JournalState, body: SavepointDropped) -> JournalState:
    """Drop a savepoint. Raises ValueError if there is none of that name."""
    if body.name not in state.savepoints:
        msg = f"there is no savepoint {body.name!r}"
        raise ValueError(msg)
    left = {name: kept for name, kept in state.savepoints.items() if name != body.name}
    what = f"savepoint {body.name!r} is dropped"
    notes = acted(state, "savepoint dropped", body.time_ms, what, body.cause)
    return replace(state, savepoints=left, notes=notes)


def reset(state: JournalState, body: SourceReset) -> JournalState:
    """Move a source to another offset. Raises ValueError if a timestep is open, or the source has gone on."""
    if state.open_intents or state.offsets.get(body.source) != body.before:
        msg = f"source {body.source!r} cannot be reset: a timestep is open, or it is not at {body.before}"
        raise ValueError(msg)
    what = f"source {body.source!r} from {_line(body.before)} to {_line(body.after)}"
    notes = acted(state, "reset", body.time_ms, what, body.cause)
    return replace(state, offsets={**state.offsets, body.source: body.after}, notes=notes)


def edited(state: JournalState, body: StateEdited) -> JournalState:
    """Change stored rows of an operator as of the latest committed timestep. Raises ValueError for another timestep."""
    if body.timestep != state.last_committed:
        msg = f"state of {body.operator!r} at timestep {body.timestep} is edited; the latest is {state.last_committed}"
        raise ValueError(msg)
    latest = state.latest
    manifest = latest.manifests.get(body.operator, Manifest()).apply(body.edit)
    version = replace(latest, manifests={**latest.manifests, body.operator: manifest})
    notes = acted(state, acts.EDITED, body.time_ms, acts.edit_in(body), body.cause)
    return replace(state, versions={**state.versions, body.timestep: version}, notes=notes)


def acted(
    state: JournalState, kind: str, time_ms: int, what: str, cause: str = ""
) -> dict[str, Json]:
    """Return the notes with one more act, as of the latest committed timestep."""
    timestep = state.last_committed
    return acts.with_act(
        state.notes, kind, time_ms=time_ms, timestep=timestep, what=what, cause=cause
    )


def savepoint_of(state: JournalState, time_ms: int, cause: str) -> Savepoint:
    """Return the latest committed timestep, of which there is one, as a savepoint."""
    timestep = state.last_committed or 0
    return Savepoint(
        timestep=timestep,
        time_ms=time_ms,
        cause=cause,
        version=replace(state.latest, outbox={}),
        offsets=state.offsets,
        configuration=state.configuration_at(timestep + 1),
        notes={kind: note for kind, note in state.notes.items() if kind != acts.NOTE},
    )


def _line(offset: Json) -> str:
    text = str(offset)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
