"""What openings and closings of the journal do to its state. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from rechannel.engine.journal import acts
from rechannel.engine.journal.entries import Beginning, Closed, Opened
from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.state import JournalState
from rechannel.state.manifest import Manifest

_OPENINGS = 256
"""Ids of drivers that are remembered, to tell output of this directory from that of a copy."""


def opened(state: JournalState, body: Opened) -> JournalState:
    """Begin an epoch. Raises ValueError if a later one begins at a savepoint."""
    attempts = state.attempts + 1 if state.open_intents else 0
    # Early journals have no ids: openings are remembered from the first one with an id on.
    openings = (*state.openings, body.id)[-_OPENINGS:] if body.id or state.openings else ()
    if body.begins is not None:
        state = _begun(state, body, body.begins)
    return replace(
        state,
        driver=body,
        closed=False,
        keep_versions=body.keep_versions,
        attempts=attempts,
        openings=openings,
        opened_at=(*state.opened_at, state.next_number),
    )


def closed(state: JournalState, _: Closed) -> JournalState:
    """End an epoch."""
    # A driver that closes the journal itself has not failed at its open timesteps.
    return replace(state, closed=True, attempts=max(0, state.attempts - 1))


def _begun(state: JournalState, opening: Opened, begins: Beginning) -> JournalState:
    """Begin at a savepoint of another state directory."""
    if state.number:
        msg = f"entry {state.next_number} begins at a savepoint, but it is not the first"
        raise ValueError(msg)
    version = Version(
        manifests={name: Manifest().apply(edit) for name, edit in begins.edits.items()},
        stream_ms=begins.stream_ms,
        times=begins.times,
    )
    at = f"savepoint {begins.savepoint!r} of " if begins.savepoint else ""
    notes = acts.with_act(
        begins.notes,
        "fork",
        time_ms=opening.time_ms,
        timestep=begins.timestep,
        what=f"forked from {at}{begins.origin}",
    )
    return replace(
        state,
        last_committed=begins.timestep,
        versions={begins.timestep: version},
        offsets=begins.offsets,
        configurations=((begins.timestep, begins.configuration),),
        notes=notes,
    )
