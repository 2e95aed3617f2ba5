"""What a file system refuses, in words: what it was about, whether waiting helps, and what to do.

Missing permission and a read-only file system stay as they are until a user changes them: `NotPermittedError`, which
is not tried again. Everything else may pass, a full disk too: `StorageError`, which is tried again as far as patience
goes.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from rechannel.errors import NotPermittedError, StorageError

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def refusal(verb: str, path: str, error: OSError, follows: str) -> StorageError:
    """The error for a call that the file system refused. follows: what is true all the same, a sentence."""
    what = f"cannot {verb} {path}: {error.strerror or error}."
    if error.errno in _DENIED:
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "the user of this process"
        return NotPermittedError(
            f"{what} Waiting does not change that. {follows} Let {user} write there, or mount it writable, and start"
            " again"
        )
    what_to_do = "Free space" if error.errno in _FULL else "Free space or correct the permissions"
    return StorageError(
        f"{what}{_free_space(path)} {follows} {what_to_do}: a running job tries again for as long as its patience"
        " lasts; when it has ended, start again"
    )


def _free_space(path: str) -> str:
    for place in (Path(path), *Path(path).parents):
        try:
            return f" {shutil.disk_usage(place).free / 2**20:,.0f} MiB are free there."
        except OSError:
            continue
    return ""
