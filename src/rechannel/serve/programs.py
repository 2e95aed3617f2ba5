"""Which program files a request may deploy: those that the owner of the job allows, on the server's own disk.

A request names a file and never carries one, so a client with the token runs nothing that the owner has not put there.
What this does not hold back, and what does:

    another user writes into the directory      the file, the modules that it can import there, and all directories
                                                must not be writable by all; who else may write there deploys, and is
                                                the owner's choice
    a link, or `..`, leads out of it            the real file has to be in the real directory
    another file than the one that was planned  a plan tells the digest of what it ran; a deploy that names it is
                                                refused for other bytes, and runs the bytes that it has compared; the
                                                digest is of this one file, not of the modules that it imports
    an old or other script in the directory     it runs when it is named: allow a directory that holds programs only,
                                                or the one file
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rechannel.errors import RefusedError
from rechannel.program_files.beside import Beside, loaded_beside
from rechannel.program_files.loading import find_job
from rechannel.program_files.modules import LoadedModules
from rechannel.serve.closed import check_above, check_closed, check_neighbours
from rechannel.serve.failures import ForbiddenError

MOST_BYTES = 4 << 20
"""Largest program file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """Files, and directories with files, that requests may deploy."""

    places: tuple[str, ...] = ()
    """With subdirectories."""

    def __post_init__(self) -> None:
        """Check the places. Raises RefusedError."""
        for place in self.places:
            if not Path(place).exists():
                msg = f"programs={list(self.places)!r}: there is no file or directory {place}"
                raise RefusedError(msg)
            check_closed(Path(place).resolve())
            check_above(Path(place).resolve())

    def found(self, asked: str) -> Path:
        """Return the real path of a file that a request names, absolute or below one of the places.

        Raises ForbiddenError, in the same words whether there is such a file elsewhere or not; RefusedError if every
        user can write it.
        """
        for place in self.places:
            root = Path(place).resolve()
            base = root if root.is_dir() else root.parent
            try:
                file = (base / asked).resolve()
                inside = file.suffix == ".py" and file.is_relative_to(root) and file.is_file()
            except (OSError, ValueError):  # such as a name that is too long, or with a NUL
                continue
            if inside:
                for each in [file, *(up for up in file.parents if up.is_relative_to(base))]:
                    check_closed(each)
                check_above(root)
                return file
        there = ", ".join(map(str, self.places)) or "nowhere"
        msg = (
            f"{asked!r} is no program that requests may deploy: these lie in {there}. The job's owner allows more:"
            " job.serve(programs=['DIRECTORY']), or rechannel run --programs DIRECTORY"
        )
        raise ForbiddenError(msg)


@dataclass(frozen=True, kw_only=True)
class Text:
    """A program's text that was loaded for a deploy."""

    job: Any
    file: Path
    sha256: str
    """Of its bytes."""
    beside: Beside

    @property
    def what(self) -> str:
        """What it is, in words, for the history."""
        return f"{self.file} (SHA-256 {self.sha256[:12]})"

    def keep(self) -> None:
        """Let its module stay: the deploy was accepted."""
        self.beside.keep()


class Deploys:
    """Loads the texts that requests name."""

    def __init__(self, programs: Programs, kind: type, now_s: float) -> None:
        """kind: the class of jobs. now_s: Unix time."""
        self._programs = programs
        self._kind = kind
        self._known = LoadedModules(now_s) if programs.places else None

    @contextmanager
    def loaded(self, asked: str, name: str | None, digest: str | None) -> Iterator[Text]:
        """Load the text that a request names, and forget it at the end unless it is kept.

        name: the variable of its job; None = the only one. digest: SHA-256 that the file must have; None = any. Raises
        ForbiddenError, RefusedError, DataflowError.
        """
        file = self._programs.found(asked)
        data = _read(file)
        found = sha256(data).hexdigest()
        if digest is not None and digest != found:
            msg = (
                f"{file} is another file (SHA-256 {found[:12]}) than the one that is meant ({digest[:12]}): bring the"
                " new version to the server, or plan the deploy again"
            )
            raise RefusedError(msg)
        if self._known is None:
            msg = "no program may be deployed"
            raise ForbiddenError(msg)
        check_neighbours(file.parent)
        with loaded_beside(file, data, self._known) as beside:
            job: Any = find_job(beside.module, name, self._kind)
            yield Text(job=job, file=file, sha256=found, beside=beside)


def programs_of(places: Sequence[str] | str) -> Programs:
    """Return the programs of `serve(programs=...)`, where a single place may be given alone."""
    return Programs(places=(places,) if isinstance(places, str) else tuple(map(str, places)))


def _read(file: Path) -> bytes:
    """Return what a file holds. Raises RefusedError."""
    with file.open("rb") as opened:
        data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        msg = f"{file} has more than {MOST_BYTES >> 20} MB: that is no program"
        raise RefusedError(msg)
    return data
