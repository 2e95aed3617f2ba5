"""What becomes of timesteps: intended, committed, published, withdrawn. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from rechannel.engine.journal import incarnations
from rechannel.engine.journal.entries import Committed, Intent, Published, Withdrawn
from rechannel.engine.journal.folds.changes import stepped
from rechannel.engine.journal.kept import Version, frozen
from rechannel.engine.journal.state import JournalState
from rechannel.model.bad_rows import advanced
from rechannel.model.bytimestep import ByTimestep
from rechannel.model.configuration import Configuration
from rechannel.state.manifest import Manifest

WITHDRAWN = "withdrawn"
"""Kind of the note that holds the latest timestep that was withdrawn last: files of it may lie there for a while."""


def intended(state: JournalState, body: Intent) -> JournalState:
    """Open a timestep. Raises ValueError if it is not the next one."""
    last = state.last_intended
    if last is not None and body.timestep != last + 1:
        msg = f"timestep {body.timestep} is intended, but the next one is {last + 1}"
        raise ValueError(msg)
    if body.configuration is not None:
        held = {**dict(state.configurations), body.timestep: body.configuration}
        state = replace(state, configurations=tuple(sorted(held.items(), key=_timestep)))
    holds = {since: c.version for since, c in state.configurations if since <= body.timestep}
    if not holds or holds[max(holds)] != body.configuration_version:
        msg = (
            f"timestep {body.timestep} is intended under configuration"
            f" {body.configuration_version}, which is not the one that holds from then on"
        )
        raise ValueError(msg)
    state = stepped(state, body.steps)
    if body.controls:
        state = replace(state, board=state.board.intended(body.controls, body.timestep))
    attempts = state.attempts if state.open_intents else 1
    digest = body.digest(state.driver.id if state.driver else "")
    return replace(
        state,
        open_intents=(*state.open_intents, body),
        attempts=attempts,
        digests=ByTimestep.of(state.digests).put(body.timestep, digest),
    )


def committed(state: JournalState, body: Committed) -> JournalState:
    """Commit the first open timestep. Raises ValueError for another one."""
    if not state.open_intents or state.open_intents[0].timestep != body.timestep:
        waiting = [intent.timestep for intent in state.open_intents]
        msg = f"timestep {body.timestep} cannot be committed: open, in this order, are {waiting}"
        raise ValueError(msg)
    manifests = dict(state.manifests)
    for operator, edit in body.edits.items():
        manifests[operator] = manifests.get(operator, Manifest()).apply(edit)
    stream_ms = state.open_intents[0].stream_ms
    times = {**state.times, **body.times}
    version = Version(manifests=manifests, outbox=body.outbox, stream_ms=stream_ms, times=times)
    if body.controls:
        state = replace(state, board=state.board.committed(body.controls))
    unpublished = ByTimestep.of(state.unpublished)
    if body.staged:
        unpublished = unpublished.put(body.timestep, frozen(body.staged))
    return replace(
        state,
        last_committed=body.timestep,
        open_intents=state.open_intents[1:],
        attempts=int(len(state.open_intents) > 1),
        versions={**state.versions, body.timestep: version},
        offsets={**state.offsets, **body.offsets},
        unpublished=unpublished,
        bad_rows=advanced(state.bad_rows, body.timestep, body.bad_rows),
    )


def published(state: JournalState, body: Published) -> JournalState:
    """Forget what a sink has published. Raises ValueError if nothing waited for it."""
    left = dict(state.unpublished.get(body.timestep, {}))
    if body.sink not in left:
        msg = f"sink {body.sink!r} has nothing to publish of timestep {body.timestep}"
        raise ValueError(msg)
    del left[body.sink]
    unpublished, digests = ByTimestep.of(state.unpublished), ByTimestep.of(state.digests)
    if left:
        return replace(state, unpublished=unpublished.put(body.timestep, frozen(left)))
    if body.timestep not in state.versions:
        digests = digests.without(body.timestep)
    return replace(state, unpublished=unpublished.without(body.timestep), digests=digests)


def withdrawn(state: JournalState, body: Withdrawn) -> JournalState:
    """Withdraw open timesteps, from one on. Raises ValueError if it is not open."""
    since = body.from_timestep
    if all(intent.timestep != since for intent in state.open_intents):
        waiting = [intent.timestep for intent in state.open_intents]
        msg = f"timestep {since} cannot be withdrawn: it is not open; open timesteps: {waiting}"
        raise ValueError(msg)
    kept = tuple(intent for intent in state.open_intents if intent.timestep < since)
    before = tuple((t, c) for t, c in state.configurations if t < since)
    latest = state.configurations[-1]
    holds = (*before, latest if latest[0] < since else (since, latest[1]))
    nothing = state.last_committed is None and not kept and not state.coordination.serial
    if nothing and latest[1].dataflow == 1:
        holds = ()  # nothing has happened at all: the stream begins as the next driver's settings say
    digests = ByTimestep.of(state.digests)
    for intent in state.open_intents[len(kept) :]:
        digests = digests.without(intent.timestep)
    return replace(
        state,
        open_intents=kept,
        digests=digests,
        attempts=state.attempts if kept else 0,
        configurations=tuple(dict(holds).items()),
        coordination=state.coordination.withdrawn(since),
        board=state.board.withdrawn(since),
        notes={
            **incarnations.withdrawn(state.notes, since),
            WITHDRAWN: {"last": state.last_intended},
        },
    )


def _timestep(held: tuple[int, Configuration]) -> int:
    return held[0]
