"""Publishing where a rename is not one step: an object store copies file by file, and may break off in between.

    <path>/_rechannel/<owner>/publishing-<staged>/      its rename has begun, and may be half done
    <path>/timestep=<12 digits>/_rechannel-...          the mark: made after the rename

Whether a directory is whole, only the note tells: it is made before the rename and removed when the mark is there. A
directory with a note of its timestep is a fragment of ours. It is completed from what is left of the same staged files,
or removed if the rows were staged anew.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import PUBLISHING, check_published, mark_of
from rechannel.sinks.folder import Folder


@runtime_checkable
class SteppedFolder(Folder, Protocol):
    """A `Folder` of which some paths are on object stores."""

    def renames_in_steps(self, path: str) -> bool:
        """Return whether a rename there may break off with some of the files moved."""

    def move_rest(self, source: str, target: str) -> None:
        """Move the files that a rename has left at the source; nothing happens if there is no source.

        Files that are at both places, of the same length, are removed at the source.
        """


def stepped(folder: Folder, path: str) -> SteppedFolder | None:
    """Return the folder if a rename of a path is not one step; None if it is."""
    return folder if isinstance(folder, SteppedFolder) and folder.renames_in_steps(path) else None


def publish_stepwise(
    folder: SteppedFolder, staging: str, name: str, target: str, batch: Batch
) -> None:
    """Move a staged directory to its public name, and go on with a move that was broken off.

    name: in the staging directory. Raises OtherHistoryError if another batch is there, MissingFileError, StorageError.
    """
    source, own = f"{staging}/{name}", f"{PUBLISHING}{name}"
    of_timestep = f"{PUBLISHING}{batch.timestep:012d}-"
    notes = [each for each in folder.names(staging) if each.startswith(of_timestep)]
    there = folder.exists(target)
    if there and not notes:
        check_published(folder, target, batch)
        folder.remove(source)
        return
    if own not in notes:
        folder.make(f"{staging}/{own}")
    if there and notes != [own]:
        folder.remove(target)
        there = False
    for each in notes:
        if each != own:
            folder.remove(f"{staging}/{each}")
    if there:
        folder.move_rest(source, target)
    elif not folder.rename(source, target):
        check_published(folder, target, batch)
    if (mark := mark_of(batch)) is not None:
        folder.make(f"{target}/{mark}")
    folder.remove(source)
    folder.remove(f"{staging}/{own}")
