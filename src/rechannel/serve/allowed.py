"""Which functions and controllers requests may name: those of modules that the owner of the job allows.

Importing a module runs it, so the path is checked before anything is imported. What is named must also be defined in
the allowed module: `shop.logic:os.system` can be reached through `shop.logic`, but is defined elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.dataflow.identity.digests import path_of
from rechannel.dataflow.identity.logic import find_loaded, load_logic
from rechannel.errors import DataflowError, RefusedError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.together import parts_of
from rechannel.reconfigure.edits import AnyChange, with_functions
from rechannel.serve.failures import ForbiddenError

Finder = Callable[[str], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """Modules whose functions and controllers requests may name."""

    modules: tuple[str, ...] = ()
    """Their submodules are allowed, too."""

    def __post_init__(self) -> None:
        if isinstance(self.modules, str) or not all(map(_is_module, self.modules)):
            msg = (
                f"allow={self.modules!r}: give names of modules in a list, as allow=['shop.logic']"
            )
            raise RefusedError(msg)

    def check(self, path: str) -> None:
        """Check a path without importing anything. Raises ForbiddenError."""
        module, _, name = path.partition(":")
        within = any(module == one or module.startswith(f"{one}.") for one in self.modules)
        right = _is_module(module) and all(map(_is_word, name.split(".")))
        if not within or not right:
            there = ", ".join(self.modules)
            may = f"functions of these modules: {there}" if there else "no function"
            msg = (
                f"{path!r} may not be loaded: requests to this job may name {may}. The job's owner allows more with"
                " job.serve(allow=['package.module']), or rechannel run --allow package.module"
            )
            raise ForbiddenError(msg)

    def controller(self, path: str) -> Any:
        """What a path names, imported. Raises ForbiddenError, DataflowError."""
        self.check(path)
        return self._function(path, load_logic)

    def loaded(self, change: Change) -> Sequence[AnyChange]:
        """A change with the functions that it names, imported. Raises ForbiddenError, DataflowError."""
        return self._with_functions(change, load_logic)

    def loaded_already(self, change: Change) -> Sequence[AnyChange]:
        """The same, but nothing is imported: the functions must be loaded already."""
        return self._with_functions(change, _loaded)

    def _with_functions(self, change: Change, find: Finder) -> Sequence[AnyChange]:
        parts = parts_of(change)
        # All paths are judged before the first one is imported.
        for part in parts:
            for path in part.imports:
                self.check(path)
        return with_functions(parts, lambda path: self._function(path, find))

    def _function(self, path: str, find: Finder) -> Any:
        found = find(path)
        if path_of(found) != path:
            what = path_of(found) or type(found).__name__
            msg = f"{path!r} is {what!r}: name it in the module that defines it"
            raise ForbiddenError(msg)
        return found


def _loaded(path: str) -> Any:
    found = find_loaded(path)
    if not callable(found):
        msg = (
            f"a plan imports nothing, and the job has not imported {path!r} yet: request the change itself"
            " (POST /reconfigure), or import the module in the program that starts the job"
        )
        raise DataflowError(msg)
    return found


def _is_module(text: object) -> bool:
    return isinstance(text, str) and all(map(_is_word, text.split(".")))


def _is_word(text: str) -> bool:
    """Whether it can be the name of a user's module or function; names such as `__main__` cannot."""
    return text.isidentifier() and text.isascii() and not text.startswith("__")
