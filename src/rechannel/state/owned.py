"""Folders that no other user of the machine can change, and files that no other user can read.

Any user can be the first to make a folder with a well-known name, and the owner of a folder can
replace its contents. So a folder is used only if this user owns it, no other user may write into
it, and neither all users nor the owner of the parent folder can put another one in its place. If
others can only read it, their permissions are removed.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from rechannel.errors import RefusedError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def runtime_folder() -> Path:
    """Return the folder in which this user's processes leave notes for each other; it may not
    exist.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and Path(base).is_absolute():
        return Path(base) / "rechannel"
    return Path(tempfile.gettempdir()) / f"rechannel-{os.getuid()}"


def owned_folder(path: Path) -> Path:
    """Return a folder that belongs to this user alone.

    It is made with mode 0700 if it is absent, and closed to other users if they can read it.
    Raises RefusedError if other users can change it, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    why = why_not_owned(path)
    if why is not None:
        msg = f"{path} {why}, so other users could change its contents: use another folder"
        raise RefusedError(msg)
    close_to_others(path)
    return path


def close_to_others(path: Path) -> None:
    """Remove other users' permissions on a folder of this user. Raises OSError."""
    mode = stat.S_IMODE(path.lstat().st_mode)
    if mode & _OTHERS:
        path.chmod(mode & ~_OTHERS)


def why_not_owned(path: Path) -> str | None:
    """Return why a folder is not this user's alone, in words that follow its name; None if it is.

    Raises OSError.
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "is a link or a file, not a folder"
    if found.st_uid != os.geteuid():
        return f"belongs to another user (uid {found.st_uid}, not {os.geteuid()})"
    if found.st_mode & _OTHERS_WRITE:
        return f"can be written by other users (mode {stat.S_IMODE(found.st_mode):04o}, not 0700)"
    # A user who may write into the parent folder can move this one away, unless the parent is sticky, like /tmp.
    above = path.parent.stat()
    if above.st_mode & stat.S_ISVTX:
        return None
    if above.st_mode & stat.S_IWOTH:
        return f"is in a folder in which all users may replace it ({path.parent})"
    if above.st_uid not in (0, os.geteuid()):
        return f"is in a folder of another user, who may replace it ({path.parent}, uid {above.st_uid})"
    return None


def write_secret(path: Path, text: str) -> None:
    """Write a file that only this user can read, replacing an existing one. Raises OSError."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def read_secret(path: Path) -> str | None:
    """Return a file that this user wrote, in a folder of this user; None if there is no such file."""
    try:
        if why_not_owned(path.parent) is not None:
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            right = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            return file.read(4096).decode("ascii") if right and not found.st_mode & 0o077 else None
    except (OSError, UnicodeDecodeError):
        return None
