"""What the file system says of a local input file: gone, changed, or not to be read now.

A file that is gone or was changed is an error of the source (`SourceError`). What the file system refuses for another
reason is none: it passes (too many open files, a device that does not answer: `StorageError`) or waits for a user
(`NotPermittedError`), and no file is given up for it.
"""

from __future__ import annotations

import errno
from pathlib import Path

from rechannel.errors import NotPermittedError, SourceError, StorageError
from rechannel.sources.input_files.seen import SeenFile

WITHOUT = "files(..., skip=[...]) and start(replan=True)"
"""How to do without a file."""

_GONE = (errno.ENOENT, errno.ENOTDIR)
_DENIED = (errno.EACCES, errno.EPERM)


def refused(file: str, error: OSError) -> SourceError | StorageError:
    """The error for a file that the file system does not give."""
    if error.errno in _GONE:
        return SourceError(
            f"{file} is gone, though the source has picked it up; restore it and start again; or do without it,"
            f" {WITHOUT}"
        )
    if error.errno in _DENIED:
        return NotPermittedError(
            f"{file} may not be read: {error.strerror or error}. Waiting does not help: let the user of this"
            " process read it, and start again"
        )
    return StorageError(f"{file} cannot be read now: {error.strerror or error}")


def stat_of(file: str) -> SeenFile:
    """A file as it is now. Raises SourceError for one that is gone, StorageError, NotPermittedError."""
    try:
        found = Path(file).stat()
    except OSError as error:
        raise refused(file, error) from error
    return SeenFile(path=file, modified_ms=found.st_mtime_ns // 1_000_000, size=found.st_size)


def refuse_unreadable(file: str) -> None:
    """Raise SourceError, StorageError or NotPermittedError unless a file can be opened now."""
    try:
        with Path(file).open("rb", buffering=0):
            pass
    except OSError as error:
        raise refused(file, error) from error


def refuse_other_size(file: str, size: int) -> None:
    """Raise SourceError for a file whose size is not that with which it was picked up, or that is gone."""
    if (now := stat_of(file).size) != size:
        msg = (
            f"{file} has {now} bytes and had {size} when it was picked up. Files that a stream has seen may not"
            " change: restore it and start again; or let it be picked up anew, start(replan=True)"
        )
        raise SourceError(msg)


def why_changed(before: SeenFile, now: SeenFile) -> str | None:
    """How a file differs from the one that was picked up, in words that follow its name; None if it does not."""
    if now.size != before.size:
        return f"has {now.size} bytes and had {before.size} when it was picked up"
    if now.modified_ms != before.modified_ms:
        return "was modified after it was picked up"
    return None


def changed(file: str, why: str) -> SourceError:
    """The error for a file of which a part was read, and which is another one now."""
    return SourceError(
        f"{file} {why}, and a timestep before has read a part of it: its other rows cannot be told any more. Restore"
        f" it, with its time of modification, and start again; or do without the rest of it, {WITHOUT}"
    )
