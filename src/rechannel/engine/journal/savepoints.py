"""Savepoints as they are asked for: what may be journalled, and what is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rechannel.engine.journal.entries import SavepointDropped, SavepointMade
from rechannel.engine.journal.folds.acts import MOST_SAVEPOINTS
from rechannel.engine.journal.state import JournalState
from rechannel.errors import NotReadyError, RefusedError
from rechannel.monitoring import SavepointStatus

NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a savepoint may be called."""


def making(state: JournalState, name: str, time_ms: int, cause: str) -> SavepointMade:
    """Return the entry that names the latest committed timestep. Raises RefusedError, NotReadyError."""
    if not NAMES.fullmatch(name):
        msg = f"savepoint {name!r}: use at most 64 letters, digits, '.', '_' and '-', such as before-migration"
        raise RefusedError(msg)
    if name in state.savepoints:
        at = state.savepoints[name].timestep
        msg = f"there is a savepoint {name!r} already, of timestep {at}: drop it first, or choose another name"
        raise RefusedError(msg)
    if len(state.savepoints) >= MOST_SAVEPOINTS:
        msg = (
            f"there are {len(state.savepoints)} savepoints already, and no more are kept: drop one of"
            f" {sorted(state.savepoints)}"
        )
        raise RefusedError(msg)
    if state.last_committed is None:
        msg = f"savepoint {name!r}: no timestep is committed yet, so there is no state to keep"
        raise NotReadyError(msg)
    return SavepointMade(name=name, timestep=state.last_committed, time_ms=time_ms, cause=cause)


def dropping(state: JournalState, name: str, time_ms: int, cause: str) -> SavepointDropped:
    """Return the entry that drops a savepoint. Raises NotReadyError if there is none."""
    check_there(state, name)
    return SavepointDropped(name=name, time_ms=time_ms, cause=cause)


def check_there(state: JournalState, name: str) -> None:
    """Raise NotReadyError unless there is a savepoint of that name."""
    if name not in state.savepoints:
        there = ", ".join(sorted(state.savepoints)) or "none"
        msg = f"there is no savepoint {name!r}; there are: {there}"
        raise NotReadyError(msg)


def savepoints_of(state: JournalState) -> Mapping[str, SavepointStatus]:
    """Return all savepoints by name, oldest first."""
    inorder = sorted(state.savepoints.items(), key=lambda item: (item[1].timestep, item[1].time_ms))
    found = {}
    for name, one in inorder:
        manifests = one.version.manifests.values()
        sizes = {run.segment: run.size for manifest in manifests for run in manifest.runs}
        found[name] = SavepointStatus(
            name=name,
            timestep=one.timestep,
            time_ms=one.time_ms,
            cause=one.cause,
            program=one.configuration.dataflow,
            files=len(sizes),
            bytes=sum(sizes.values()),
        )
    return found
