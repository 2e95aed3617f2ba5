"""Another text of a program, loaded in the process that runs it. Until it is kept, the process is as it was before."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import invalidate_caches
from pathlib import Path
from types import ModuleType

from rechannel.errors import DataflowError, NotReadyError
from rechannel.program_files.loading import (
    module_of,
    put_on_path,
    run,
    send_by_name,
    send_by_value,
)
from rechannel.program_files.modules import LoadedModules, loaded_from

_ONE = threading.Lock()
"""Names of modules belong to the process: one text is loaded at a time."""
TURN_SECONDS = 20.0
"""How long a text waits for another one to be loaded."""


@dataclass
class Beside:
    """A text that was loaded."""

    module: ModuleType
    kept: bool = False
    """Whether it stays loaded."""

    def keep(self) -> None:
        """Let it stay: it has been accepted."""
        self.kept = True


@contextmanager
def loaded_beside(file: Path, data: bytes, known: LoadedModules) -> Iterator[Beside]:
    """Run a program's file beside the running program, and forget it at the end unless it is kept.

    file: an absolute path. data: what it holds, which is what runs. known: modules that are loaded. Modules beside the
    file that are not loaded yet travel to workers by value, as the file itself does: no worker has to find them. Raises
    RefusedError if a module beside the file is another one than the one that is loaded, DataflowError for what the file
    raises, NotReadyError while another text is being loaded.
    """
    with _turn(file):
        known.check(file.parent)
        before, path = dict(sys.modules), list(sys.path)
        module = module_of(file)
        by_value: list[ModuleType] = []
        made = Beside(module)
        try:
            put_on_path(str(file.parent))
            invalidate_caches()
            try:
                run(module, file, data)
            except SystemExit as error:
                msg = f"{file} ends the process ({error!r}) when it is imported: leave that to its end"
                raise DataflowError(msg) from error
            new = [one for one in loaded_from(file.parent) if one.__name__ not in before]
            by_value = [one for one in new if send_by_value(one)]
            yield made
        finally:
            if made.kept:
                known.note()
            else:
                _forget(module, file.parent, before, by_value)
            if not made.kept or str(file.parent) in path:
                sys.path[:] = path


@contextmanager
def _turn(file: Path) -> Iterator[None]:
    if not _ONE.acquire(timeout=TURN_SECONDS):
        msg = (
            f"{file} cannot be loaded while another program is: ask again. If that stays so, the other one hangs in its"
            " import, and the job has to be started again"
        )
        raise NotReadyError(msg)
    try:
        yield
    finally:
        _ONE.release()


def _forget(
    module: ModuleType,
    directory: Path,
    before: dict[str, ModuleType],
    by_value: list[ModuleType],
) -> None:
    """Take a text, and what it alone has loaded of its directory, out of the process."""
    for one in by_value:
        send_by_name(one)
    for one in [*loaded_from(directory), module]:
        if one.__name__ in before:
            sys.modules[one.__name__] = before[one.__name__]
        else:
            sys.modules.pop(one.__name__, None)
