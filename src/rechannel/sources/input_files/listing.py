"""Listing: which files match a pattern and contain data.

A pattern is a path or glob (`*`, `?`, `[...]`, and `**` for any depth). A directory that matches
stands for all files in it, at any depth. Files that are still being written and hidden files are
ignored: hidden is a name that begins with `_` or `.` below the part of the pattern without
wildcards.

What cannot contain rows is skipped with a warning: pipes, sockets and devices, on which a reader
would block, broken links, and links to a directory above them. A file whose name is not UTF-8 is
an error: it may contain rows, and no journal, log or message could name it.
"""
# ruff: noqa: PTH110, PTH112, PTH114, PTH116

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from rechannel.errors import NotPermittedError, SourceError, StorageError
from rechannel.sources.input_files.seen import SeenFile

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(?=/|$)")
_UNFINISHED = (".crc", ".tmp", "._COPYING_")


def is_remote(path: str) -> bool:
    """Return whether a path is a URI other than a local file's."""
    found = _SCHEME.match(path)
    return found is not None and found["scheme"] != "file"


def bare(path: str) -> str:
    """Return a path without scheme and host."""
    return _SCHEME.sub("", path, count=1)


def hidden(path: str, pattern: str) -> bool:
    """Return whether a file that matches a pattern is not data: hidden, or still being written."""
    path, root = bare(path), fixed_part(bare(pattern))
    below = path[len(root) :] if path.startswith(f"{root}/") else path.rpartition("/")[2]
    return path.endswith(_UNFINISHED) or any(p.startswith(("_", ".")) for p in below.split("/"))


def fixed_part(pattern: str) -> str:
    """Return the directories of a pattern before its first wildcard, which the user named
    explicitly.
    """
    parts = pattern.split("/")
    wild = next((i for i, part in enumerate(parts) if re.search(r"[*?\[{]", part)), None)
    return "/".join(parts if wild is None else parts[:wild])


def meant_literally(pattern: str) -> str | None:
    """Return an existing directory or file whose name equals a part of the pattern that does not
    match it; None otherwise.
    """
    parts = pattern.split("/")
    for stop, part in enumerate(parts, start=1):
        place = "/".join(parts[:stop])
        if re.search(r"[*?\[]", part) and not fnmatchcase(part, part) and os.path.exists(place):
            return place
    return None


def local_files(
    pattern: str, seen: Callable[[str], bool], odd: Callable[[str], None] = lambda _: None
) -> Iterator[SeenFile]:
    """Yield files that match a pattern, or are in a directory that does, except for those seen.

    odd: called with a sentence for everything that is skipped because it cannot contain rows.
    Raises SourceError if a directory cannot be listed, or a name is not UTF-8.
    """
    for path in _expanded(pattern, seen, odd):
        if not hidden(path, pattern):
            found = _looked_at(path, odd)
            if found is not None:
                yield found


def _looked_at(path: str, odd: Callable[[str], None]) -> SeenFile | None:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):
            odd(f"{shown(path)} is a broken link")
        return None  # or moved away between listing and stat
    except OSError as error:
        if error.errno == errno.ELOOP:
            odd(f"{shown(path)} is a link to itself")
            return None
        raise _unlisted(error) from error
    if not stat.S_ISREG(facts.st_mode):
        odd(f"{shown(path)} is not a file, but a pipe, a socket or a device")
        return None
    if shown(path) != path:
        msg = (
            f"the name of {shown(path)} is not UTF-8, so the journal cannot record that it was read: rename it, or"
            " move it away"
        )
        raise SourceError(msg)
    return SeenFile(path=path, modified_ms=facts.st_mtime_ns // 1_000_000, size=facts.st_size)


def shown(path: str) -> str:
    r"""Return a path as messages can contain it: bytes that are not UTF-8 as `\\xe9`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _expanded(
    pattern: str, seen: Callable[[str], bool], odd: Callable[[str], None]
) -> Iterator[str]:
    """Yield paths of files. The seen ones are dropped first: of many files, nearly all are."""
    if "**" in pattern:
        segments = pattern.split("/")
        root = fixed_part(pattern) or "/"
        for path in _below(root, odd) if os.path.isdir(root) else ():
            if not seen(path) and _matches(path.split("/"), segments):
                yield path
        return
    start, parts = ("", pattern[1:]) if pattern.startswith("/") else (None, pattern)
    for path in _globbed(start, parts.split("/")):
        if seen(path):
            continue
        if not os.path.isdir(path):
            yield path
        else:
            yield from (found for found in _below(path, odd) if not seen(found))


def _globbed(folder: str | None, parts: Sequence[str]) -> Iterator[str]:
    """Yield the paths that match, as `glob` does, which passes over what it may not list without a word.

    folder: its parts before; None for those of the present directory.
    """
    if not parts:
        if folder is not None:
            yield folder
        return
    head, *rest = parts
    if not head:
        yield from _globbed(folder, rest)
    elif not glob.has_magic(head):
        path = head if folder is None else f"{folder}/{head}"
        if _is_there(path):
            yield from _globbed(path, rest)
    else:
        for name in _names(folder):
            if fnmatchcase(name, head) and (head.startswith(".") or not name.startswith(".")):
                path = name if folder is None else f"{folder}/{name}"
                if not rest or os.path.isdir(path):
                    yield from _globbed(path, rest)


def _names(folder: str | None) -> list[str]:
    try:
        with os.scandir("." if folder is None else folder or "/") as entries:
            return [entry.name for entry in entries]
    except OSError as error:
        _refuse(error)
        return []


def _is_there(path: str) -> bool:
    try:
        os.lstat(path)
    except OSError as error:
        _refuse(error)
        return False
    return True


def _below(root: str, odd: Callable[[str], None]) -> Iterator[str]:
    """Yield paths of the files below a directory, following links, but never in a cycle."""
    above = {root: {_identity(root)}}
    for folder, below, names in os.walk(root, onerror=_refuse, followlinks=True):
        mine = above.pop(folder)
        kept = []
        for name in below:
            path = f"{folder.rstrip('/')}/{name}"
            if name.startswith(("_", ".")):
                continue
            identity = _identity(path)
            if identity is None:
                continue  # moved away between listing and stat
            if identity in mine:
                odd(f"{shown(path)} is a link to a directory above it")
                continue
            above[path] = {*mine, identity}
            kept.append(name)
        below[:] = kept
        yield from (f"{folder.rstrip('/')}/{name}" for name in names)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unlisted(error) from error
    return facts.st_dev, facts.st_ino


def _matches(parts: Sequence[str], segments: Sequence[str]) -> bool:
    """Return whether a path matches a pattern, both in parts; `**` is any number of directories."""
    if not segments:
        return not parts
    if segments[0] == "**":
        rest = segments[1:] or ["*"]
        return any(_matches(parts[skip:], rest) for skip in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], segments[0]) and _matches(parts[1:], segments[1:])


def _refuse(error: OSError) -> None:
    if error.errno not in (
        errno.ENOENT,
        errno.ENOTDIR,
    ):  # or moved away between a look and the next
        raise _unlisted(error)


def _unlisted(error: OSError) -> StorageError:
    what = f"cannot list {shown(str(error.filename))}: {error.strerror}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return NotPermittedError(f"{what}. Correct the permissions and start again")
    return StorageError(what)
