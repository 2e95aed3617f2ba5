"""The state of a local input file: missing, changed, or not readable now.

A file that is missing or was changed is an error of the source (`SourceError`). Other failures of
the file system are not: they are transient (too many open files, a device that does not answer:
`StorageError`) or need a user (`NotPermittedError`), and no file is given up for them.
"""

from __future__ import annotations

import errno
from pathlib import Path

from rechannel.errors import NotPermittedError, SourceError, StorageError
from rechannel.sources.input_files.seen import SeenFile

WITHOUT = "files(..., skip=[...]) and start(replan=True)"
"""How to continue without a file."""

_GONE = (errno.ENOENT, errno.ENOTDIR)
_DENIED = (errno.EACCES, errno.EPERM)


def refused(file: str, error: OSError) -> SourceError | StorageError:
    """Return the error for a file that the file system does not open."""
    if error.errno in _GONE:
        return SourceError(
            f"{file} is missing, though the source has picked it up. Restore it and start again; or continue without"
            f" it, {WITHOUT}"
        )
    if error.errno in _DENIED:
        return NotPermittedError(
            f"{file} may not be read: {error.strerror or error}. Waiting does not help: give the user of this process"
            " permission to read it, and start again"
        )
    return StorageError(f"{file} cannot be read now: {error.strerror or error}")


def stat_of(file: str) -> SeenFile:
    """Return a file as it is now. Raises SourceError if it is missing, StorageError,
    NotPermittedError.
    """
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
    """Raise SourceError if a file is missing or its size changed since it was picked up."""
    if (now := stat_of(file).size) != size:
        msg = (
            f"{file} has {now} bytes and had {size} when it was picked up. Files that a stream has seen must not"
            " change: restore it and start again; or have it picked up again with start(replan=True)"
        )
        raise SourceError(msg)


def why_changed(before: SeenFile, now: SeenFile) -> str | None:
    """Return how a file differs from the one that was picked up, in words that follow its name;
    None if it does not.
    """
    if now.size != before.size:
        return f"has {now.size} bytes and had {before.size} when it was picked up"
    if now.modified_ms != before.modified_ms:
        return "was modified after it was picked up"
    return None


def changed(file: str, why: str) -> SourceError:
    """Return the error for a file that changed after a part of it was read."""
    return SourceError(
        f"{file} {why}, and an earlier timestep has read a part of it: its remaining rows can no longer be identified."
        f" Restore it, with its modification time, and start again; or continue without the rest of it, {WITHOUT}"
    )
