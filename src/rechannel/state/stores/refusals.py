"""Errors of a file system, in words: what failed, whether waiting helps, and what to do.

Missing permission and a read-only file system last until a user changes them: `NotPermittedError`,
which is not retried. Everything else may be transient, even a full disk: `StorageError`, which is
retried as long as patience lasts.
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
    """Return the error for a call that failed. follows: what is still guaranteed, a sentence."""
    what = f"cannot {verb} {path}: {error.strerror or error}."
    if error.errno in _DENIED:
        user = f"user {os.getuid()}" if hasattr(os, "getuid") else "the user of this process"
        return NotPermittedError(
            f"{what} Waiting does not help. {follows} Give {user} write permission there, or mount it writable, and"
            " start again"
        )
    what_to_do = "Free space" if error.errno in _FULL else "Free space or correct the permissions"
    return StorageError(
        f"{what}{_free_space(path)} {follows} {what_to_do}: a running job retries as long as its patience lasts; if"
        " it has ended, start it again"
    )


def _free_space(path: str) -> str:
    for place in (Path(path), *Path(path).parents):
        try:
            return f" {shutil.disk_usage(place).free / 2**20:,.0f} MiB are free there."
        except OSError:
            continue
    return ""
