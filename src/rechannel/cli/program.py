"""From what a command names to the job in a Python file."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from rechannel.errors import RefusedError
from rechannel.job import Job
from rechannel.program_files import loading

load = loading.load


def split_target(target: str) -> tuple[Path, str | None]:
    """Split `FILE` or `FILE:name` into the file and the name. Raises RefusedError if there is no such file."""
    file, wanted = split_name(target)
    if not file.is_file():
        msg = f"there is no file {file}; give a Python file that makes a job, as FILE or FILE:name"
        raise RefusedError(msg)
    return file, wanted


def split_name(target: str) -> tuple[Path, str | None]:
    """Split `FILE` or `FILE:name`; the file may be elsewhere."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and not Path(target).exists():
        return Path(path), name
    return Path(target), None


def find_job(module: ModuleType, name: str | None) -> Job:
    """The one job of a module, or the one with that name. Raises DataflowError."""
    return loading.find_job(module, name, Job)
