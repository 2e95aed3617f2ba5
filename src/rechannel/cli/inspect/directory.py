"""A state directory that is only looked at."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rechannel.engine.program.identity import Identity, read_identity
from rechannel.errors import MissingFileError, RefusedError
from rechannel.state.keys import IDENTITY
from rechannel.state.store import Backing
from rechannel.state.stores.local import Durability, directory_of
from rechannel.state.stores.opening import open_backing

TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDirectory:
    """Where a job keeps what it knows. Nothing here writes, but for `rechannel repair`. where: as it was given."""

    store: Backing
    identity: Identity
    where: str

    @property
    def telemetry(self) -> Path:
        """Where the event files are. Raises RefusedError where there are none."""
        directory = directory_of(self.store)
        if directory is None:
            msg = f"{self.where} is no directory: events are kept beside state in a directory only"
            raise RefusedError(msg)
        return directory.root / TELEMETRY


def open_directory(where: str | os.PathLike[str], *, durable: bool = False) -> StateDirectory:
    """Look at a state directory, or at the URL of a bucket that is used as one.

    durable: what is written there after all survives a power cut.
    Raises RefusedError when it is none, DamagedStateError or NewerFormatError for its identity.
    """
    store = open_backing(where, Durability.POWER if durable else Durability.PROCESS)
    try:
        identity = read_identity(store)
    except MissingFileError as error:
        directory = directory_of(store)
        there = directory is None or directory.root.is_dir()
        what = f"there is no {IDENTITY} in it" if there else "there is no such directory"
        msg = (
            f"{where} is no state directory: {what}; give what the job has as `rc.Job(..., state=)`"
        )
        raise RefusedError(msg) from error
    return StateDirectory(store=store, identity=identity, where=os.fspath(where))
