"""A state directory that is only read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rechannel.engine.program.identity import Identity, read_identity
from rechannel.errors import MissingFileError, RefusedError
from rechannel.state.keys import IDENTITY
from rechannel.state.store import Backing
from rechannel.state.stores.local import Durability, directory_of
from rechannel.state.stores.locations import open_backing

TELEMETRY = "telemetry"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDirectory:
    """The state directory of a job. Only `rechannel repair` writes to it. where: as the user gave it."""

    store: Backing
    identity: Identity
    where: str

    @property
    def telemetry(self) -> Path:
        """The directory of the event files. Raises RefusedError if there is none."""
        directory = directory_of(self.store)
        if directory is None:
            msg = f"{self.where} is not a directory: only state in a directory has events beside it"
            raise RefusedError(msg)
        return directory.root / TELEMETRY


def open_directory(where: str | os.PathLike[str], *, durable: bool = False) -> StateDirectory:
    """Open a state directory, or the URL of a bucket that is used as one.

    durable: whether writes survive a power failure.
    Raises RefusedError if it is not one, DamagedStateError or NewerFormatError for its identity.
    """
    store = open_backing(where, Durability.POWER if durable else Durability.PROCESS)
    try:
        identity = read_identity(store)
    except MissingFileError as error:
        directory = directory_of(store)
        there = directory is None or directory.root.is_dir()
        what = f"there is no {IDENTITY} in it" if there else "there is no such directory"
        msg = f"{where} is not a state directory: {what}; give the `state` of `rc.Job(..., state=...)`"
        raise RefusedError(msg) from error
    return StateDirectory(store=store, identity=identity, where=os.fspath(where))
