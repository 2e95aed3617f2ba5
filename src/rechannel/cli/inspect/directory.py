"""A state directory that is only looked at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rechannel.engine.identity import Identity, read_identity
from rechannel.errors import MissingFileError, RefusedError
from rechannel.state.keys import IDENTITY
from rechannel.state.local import LocalStore

TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDirectory:
    """Where a job keeps what it knows. Nothing here ever writes."""

    store: LocalStore
    identity: Identity

    @property
    def telemetry(self) -> Path:
        """Where the event files are."""
        return self.store.root / TELEMETRY


def open_directory(path: Path) -> StateDirectory:
    """Look at a state directory.

    Raises RefusedError when it is none, DamagedStateError or NewerFormatError for its identity.
    """
    store = LocalStore(path)
    try:
        identity = read_identity(store)
    except MissingFileError as error:
        what = f"there is no {IDENTITY} in it" if path.is_dir() else "there is no such directory"
        msg = f"{path} is no state directory: {what}; give the directory of `rc.Job(..., state=)`"
        raise RefusedError(msg) from error
    return StateDirectory(store=store, identity=identity)
