"""Which functions a program provides for what its state directory names.

A state directory says by import path which function converts the old state of a live change. A user who can write to it
could name any function there is, so a name alone imports and calls nothing. A function counts only if the program
that is started provides it: it was given to the job (`rc.Job(..., migrations=[f])`), or it stands in a module that the
program itself is written in, as the same function by its digest.
"""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.identity.digests import digest_of, path_of
from rechannel.dataflow.identity.logic import find_loaded, function_of
from rechannel.errors import DataflowError, OtherDataflowError
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")

Function = Callable[..., Any]
PYTHON = ".".join(platform.python_version_tuple()[:2])
"""Digests hold within a minor version of Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provided:
    """What a program provides.

    given: by import path, functions that the user handed over. modules, files: what the program is written in. mended:
    whether a function of another digest is meant to take the place of the one that was used so far.
    """

    given: Mapping[str, Function] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    mended: bool = False

    def also(self, functions: Iterable[Function]) -> Provided:
        """With functions that were handed over while it runs."""
        return replace(self, given={**self.given, **_by_path(functions)})

    def function(self, named: Mapping[str, Any]) -> Function:
        """The function that a state directory names. Raises OtherDataflowError unless the program provides it."""
        path = named["path"]
        handed = self.given.get(path)
        found = self.at(path)
        give = f"give it to the job, rc.Job(..., migrations=[{path.rpartition(':')[2]}])"
        if found is None:
            msg = (
                f"this state directory holds state that migrate(using=...) converts by {path!r}, which this program"
                f" does not provide, and what only a state directory names is never imported: {give}"
            )
            raise OtherDataflowError(msg)
        if digest_of(found).text == named["digest"]:
            return found
        if self.mended:
            _LOG.warning(
                "%s is another function by now, which is meant: it converts from here on",
                path,
                extra=fields("migration_function_replaced", function=path),
            )
            return found
        if handed is None or named.get("python") == PYTHON:
            msg = (
                f"{path!r} is another function by now than the one that migrate(using=...) was given: bring that one"
                " back for as long as old state is stored, or start with mended=True if it failed and this one"
                f" gives the same for every other row. If only Python is another since then, {give}"
            )
            raise OtherDataflowError(msg)
        _LOG.warning(
            "%s is used as it was given: its digest is one of another Python",
            path,
            extra=fields("migration_function_unverified", function=path),
        )
        return found

    def at(self, path: str) -> Function | None:
        """The function at an import path, if the program provides it. Nothing is imported."""
        handed = self.given.get(path)
        return self._found(path) if handed is None else handed

    def _found(self, path: str) -> Function | None:
        """What is loaded at a path, if it is at home there and the program is written there."""
        module_name = path.partition(":")[0]
        module = sys.modules.get(module_name)
        at_home = module_name in self.modules or getattr(module, "__file__", None) in self.files
        found = find_loaded(path) if at_home else None
        return found if callable(found) and path_of(found) == path else None


def provided_by(
    dataflow: Dataflow, given: Iterable[Function] = (), *, mended: bool = False
) -> Provided:
    """What a program provides: its modules are those of its functions, its files those in which nodes are made.

    Raises DataflowError for what is no function that can be imported.
    """
    functions = filter(None, map(function_of, dataflow.nodes))
    modules = (getattr(function, "__module__", None) for function in functions)
    return Provided(
        given=_by_path(given),
        modules=frozenset(module for module in modules if isinstance(module, str)),
        files=frozenset(node.where.file for node in dataflow.nodes),
        mended=mended,
    )


def _by_path(functions: Iterable[Function]) -> dict[str, Function]:
    made = {}
    for function in functions:
        path = path_of(function)
        if path is None or not callable(function):
            msg = f"migrations={function!r}: give functions that are defined at the top of a module"
            raise DataflowError(msg)
        made[path] = function
    return made
