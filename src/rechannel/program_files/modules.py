"""Which modules a process has loaded, against what lies beside a program's file.

Python loads a module once. A process that runs a program and loads another text of it would give that text the modules
of the old one, silently, where they have the same names. So a module that lies beside the file has to be the one that
is loaded, byte by byte, or not be loaded yet.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from rechannel.errors import RefusedError
from rechannel.program_files.loading import PREFIX


class LoadedModules:
    """The user's modules that this process has loaded, with the digests of their files at that time."""

    def __init__(self, now_s: float) -> None:
        """now_s: Unix time. What is loaded now is noted; of what others load later, times of files must tell."""
        self._since_s = now_s
        self._digests: dict[Path, str] = {}
        self.note()

    def note(self) -> None:
        """Remember the files of modules that have been loaded since."""
        for _, file in _loaded():
            if file not in self._digests and (digest := _digest(file)) is not None:
                self._digests[file] = digest

    def check(self, directory: Path) -> None:
        """Raise RefusedError if a module of a directory is another one than the one that is loaded."""
        names = _top_names(directory)
        for name, file in _loaded():
            if name.partition(".")[0] not in names:
                continue
            there = _source(directory, name)
            if there is not None and _digest(there) != self._as_loaded(file):
                msg = (
                    f"module {name!r} is loaded from {file}, and {there} is another by now: Python does"
                    f" not load a module twice. Put what changes into the program's file, give the module another name,"
                    " or stop the job and `rechannel upgrade FILE --yes`"
                )
                raise RefusedError(msg)

    def _as_loaded(self, file: Path) -> str | None:
        """The digest of a file when it was loaded; None if that is unknown."""
        if file in self._digests:
            return self._digests[file]
        try:
            changed_s = file.stat().st_ctime  # unlike the time of modification, no program sets it
        except OSError:
            return None
        return _digest(file) if changed_s < self._since_s else None


def loaded_from(directory: Path) -> Iterator[ModuleType]:
    """Yield the loaded modules whose files are in a directory, but for programs themselves."""
    for name, file in _loaded():
        module = sys.modules.get(name)
        if module is not None and file.is_relative_to(directory):
            yield module


def _loaded() -> Iterator[tuple[str, Path]]:
    """Yield the names and files of loaded modules that are neither programs nor installed."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith((PREFIX, "__main__", "rechannel.")) or not isinstance(file, str):
            continue
        path = _real(file)
        if path is not None:
            yield name, path


@lru_cache(1 << 16)
def _real(file: str) -> Path | None:
    """The real file of a module; None if it was installed, or is no Python text."""
    path = Path(file).resolve()
    installed = (sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib"))
    within = any(path.is_relative_to(each) for each in installed)
    return None if within or path.suffix != ".py" else path


def _top_names(directory: Path) -> frozenset[str]:
    with os.scandir(directory) as found:
        return frozenset(entry.name.removesuffix(".py") for entry in found)


def _source(directory: Path, name: str) -> Path | None:
    """The file that a module would be loaded from, if a directory comes first on the path."""
    stem = directory.joinpath(*name.split("."))
    for file in (stem / "__init__.py", stem.with_name(f"{stem.name}.py")):
        if file.is_file():
            return file.resolve()
    return None


def _digest(file: Path) -> str | None:
    try:
        return sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None
