"""Removing files of a log that jobs have read.

A file may go when every job that is named has committed a timestep after its last row. Removed are files up to the
newest checkpoint, and never the last file: what comes next follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.engine.journal.reading import read_only
from rechannel.engine.program.identity import read_identity as read_job
from rechannel.errors import MissingFileError, RefusedError
from rechannel.sources.ingest.log import FILES, IngestLog, folder_of, number_of
from rechannel.sources.ingest.positions import position_of
from rechannel.state.stores.local import Durability
from rechannel.state.stores.locations import open_backing


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What a look came to."""

    read: int
    """File up to which all jobs have read."""
    through: int
    """File up to which the log is removed now."""
    files: int
    """Files that were removed by this look."""


def remove_read(
    log: IngestLog, states: Sequence[str], stop: Callable[[], bool] = lambda: False
) -> Removal:
    """Remove the files that all jobs have read. states: their state directories or URLs, at least one.

    stop: asked before each file whether to leave the rest to a later look.

    Raises RefusedError if one is no state directory, or its job does not read this log; StorageError,
    DamagedStateError.
    """
    read = min(read_up_to(log, state) for state in states)
    newest = log.newest(max(log.removed(), log.known()))
    through = min(read, log.known(), newest - 1)
    before = log.removed()
    if through > before:
        log.note_removal(through)
    gone, folders = 0, set[str]()
    for key in log.store.list(FILES):
        number = number_of(key)
        if number > max(through, before) or stop():
            break
        log.store.delete(key)
        gone += 1
        if folder_of(number) != folder_of(max(through, before) + 1):
            folders.add(folder_of(number))
    log.drop_folders(folders)
    return Removal(read=read, through=max(through, before), files=gone)


def read_up_to(log: IngestLog, state: str) -> int:
    """Return the last file that a job has read to its end, by its last commit. Raises RefusedError."""
    store = open_backing(state, Durability.PROCESS)
    try:
        read_job(store)
    except MissingFileError as error:
        raise RefusedError(
            f"{state} is not the state directory of a job: give the `state` of `rc.Job(..., state=...)`"
        ) from error
    offsets: Sequence[Any] = [*read_only(store).offsets.values()]
    mine = [
        each for each in offsets if isinstance(each, dict) and each.get("log") == log.identity.id
    ]
    if not mine:
        raise RefusedError(
            f"the job of {state} has not committed a timestep that reads the log {log.place}: nothing is removed"
        )
    return min(position_of(each).file - 1 for each in mine)
