"""Listing: which files match a pattern and are data.

A pattern is a path or glob (`*`, `?`, `[...]`, and `**` for any depth). A directory that matches
stands for all files below it. Ignored are files still being written and everything hidden: a name
that begins with `_` or `.` below the part of the pattern that has no wildcard.
"""
# ruff: noqa: PTH112, PTH116, PTH207

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator

from rechannel.errors import SourceError
from rechannel.sources.seen import SeenFile

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(?=/|$)")
_UNFINISHED = (".crc", ".tmp", "._COPYING_")


def is_remote(path: str) -> bool:
    """Whether a path is a URI that is not a local file's."""
    found = _SCHEME.match(path)
    return found is not None and found["scheme"] != "file"


def bare(path: str) -> str:
    """A path without scheme and host."""
    return _SCHEME.sub("", path, count=1)


def hidden(path: str, pattern: str) -> bool:
    """Whether a file that a pattern led to is not data: hidden, or still being written."""
    path, root = bare(path), fixed_part(bare(pattern))
    below = path[len(root) :] if path.startswith(f"{root}/") else path.rpartition("/")[2]
    return path.endswith(_UNFINISHED) or any(p.startswith(("_", ".")) for p in below.split("/"))


def fixed_part(pattern: str) -> str:
    """The directories of a pattern before its first wildcard: people name those themselves."""
    parts = pattern.split("/")
    wild = next((i for i, part in enumerate(parts) if re.search(r"[*?\[{]", part)), None)
    return "/".join(parts if wild is None else parts[:wild])


def local_files(pattern: str, seen: Callable[[str], bool]) -> Iterator[SeenFile]:
    """Files that match a pattern, or lie at any depth under a directory that does; not the seen.

    Raises SourceError when a directory cannot be listed.
    """
    for path in _expanded(pattern, seen):
        if not hidden(path, pattern):
            try:
                facts = os.stat(path)
            except FileNotFoundError:
                continue  # moved away between listing and looking
            except OSError as error:
                raise _unlisted(error) from error
            modified_ms = facts.st_mtime_ns // 1_000_000
            yield SeenFile(path=path, modified_ms=modified_ms, size=facts.st_size)


def _expanded(pattern: str, seen: Callable[[str], bool]) -> Iterator[str]:
    """Paths of files. The seen are dropped first: of many files, nearly all are."""
    for path in glob.iglob(pattern, recursive=True):
        if seen(path):
            continue
        if not os.path.isdir(path):
            yield path
        elif "**" not in pattern:
            for folder, below, names in os.walk(path, onerror=_refuse, followlinks=True):
                below[:] = [name for name in below if not name.startswith(("_", "."))]
                paths = (f"{folder}/{name}" for name in names)
                yield from (path for path in paths if not seen(path))


def _refuse(error: OSError) -> None:
    raise _unlisted(error)


def _unlisted(error: OSError) -> SourceError:
    return SourceError(
        f"cannot list {error.filename}: {error.strerror}. Correct the permissions and start again"
    )
