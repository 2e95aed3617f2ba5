"""Whether other users of the machine can change what a program would run: its file, and what it can import."""

from __future__ import annotations

import os
import stat
from importlib.machinery import all_suffixes
from pathlib import Path

from rechannel.errors import RefusedError

MOST_ENTRIES = 10_000
"""Files and directories below a program's directory that are looked at, at most."""

_MODULES = tuple(all_suffixes())
"""How the names of files end that Python imports."""


def check_closed(path: Path) -> None:
    """Raise RefusedError if every user can write a file or directory."""
    if path.stat().st_mode & stat.S_IWOTH:
        msg = f"{path} may be written by every user of this machine, who could run code in the job: chmod o-w it"
        raise RefusedError(msg)


def check_above(path: Path) -> None:
    """Raise RefusedError if every user can put something else in the place of a real path or of one above it."""
    for above in path.parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            msg = (
                f"every user of this machine may replace what lies in {above}, and so run code in the job:"
                " chmod o-w it, or chmod +t it"
            )
            raise RefusedError(msg)


def check_neighbours(directory: Path) -> None:
    """Raise RefusedError if every user can write a module in a directory or below it, or a directory there.

    Hidden files and directories are passed over: no module has such a name. Links are followed. Raises RefusedError if
    there are too many files to look at.
    """
    waiting, seen, count = [directory.resolve()], set[Path](), 0
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        check_closed(place)
        for entry in _entries(place):
            count += 1
            if count > MOST_ENTRIES:
                msg = (
                    f"more than {MOST_ENTRIES} files lie in {directory} and below it, so it is not known who can write"
                    " the modules among them: put programs, and what they import, into a directory of their own"
                )
                raise RefusedError(msg)
            if (below := _checked(entry)) is not None:
                waiting.append(below)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """Return what lies in a directory and may be a module, at most one more than is looked at. Raises RefusedError."""
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith("."):
                    found.append(entry)
                if len(found) > MOST_ENTRIES:
                    break
    except OSError as error:
        msg = f"{directory} cannot be read, and a program beside it can import from there: {error.strerror}"
        raise RefusedError(msg) from error
    return found


def _checked(entry: os.DirEntry[str]) -> Path | None:
    """Check a file; return the real path of a directory, which is still to be looked at."""
    if not entry.is_dir() and not entry.name.endswith(_MODULES):
        return None
    path = Path(entry.path).resolve()
    if not path.exists():  # a link that leads nowhere, or a file that has just gone
        return None
    if entry.is_symlink():
        check_closed(path.parent)
    check_closed(path)
    return path if path.is_dir() else None
