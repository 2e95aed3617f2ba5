"""Makes controllers from import paths and parameters, as HTTP, the command line and the journal name them.

What a path names is found by a function that checks first whether it may be imported. The constructor is code of the
module that is allowed, but what it is given is not: parameters are converted strictly to its annotations, and it has as
much time as a callback.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, get_type_hints

import msgspec

from rechannel.control.controller import Controller, Installation, check_settings, install
from rechannel.control.events import Installed
from rechannel.errors import RechannelError, RefusedError
from rechannel.kernels.tasks.limited import FailedCallError, jsonable, within

Find: TypeAlias = Callable[[str], Any]
"""Returns what an import path names. Raises RefusedError or DataflowError if it may not be imported, or cannot be."""

IMPORT_SECONDS = 120.0
"""How long the import of a module may take: a driver that starts again waits for it."""

MOST_PARAMETERS = 100

PARAMETER_BYTES = 64 << 10
"""Bytes that the parameters of a controller may have, as JSON: they are part of the journal."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A controller as it is asked for by its import path."""

    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    """None = the name of the class in lower case."""
    priority: int = 0
    dry_run: bool = False
    seconds: float = 10.0
    failures: int = 3

    @classmethod
    def of(cls, event: Installed) -> Wanted:
        """A controller as it was installed."""
        return cls(
            path=event.path,
            parameters=event.parameters or {},
            name=event.controller,
            priority=event.priority,
            dry_run=event.dry_run,
            seconds=event.seconds,
            failures=event.failures,
        )

    def made(self, find: Find) -> Installation:
        """Return the controller, ready to be installed.

        Raises:
            RefusedError: the path may not be imported or names no controller, or the arguments do not fit.
            DataflowError: the path cannot be imported.
        """
        check_settings(self.name, self.seconds, self.failures)
        kind = self._within(IMPORT_SECONDS, partial(find, self.path), "cannot be imported")
        if not (isinstance(kind, type) and issubclass(kind, Controller)) or kind is Controller:
            msg = f"{self.path!r} is no controller: name a class derived from rc.control.Controller"
            raise RefusedError(msg)
        parameters = self._written()
        values = checked(kind, parameters)
        controller = self._within(self.seconds, partial(kind, **values), "cannot be made")
        installation = install(
            controller,
            name=self.name,
            priority=self.priority,
            dry_run=self.dry_run,
            seconds=self.seconds,
            failures=self.failures,
        )
        return replace(installation, path=self.path, parameters=parameters)

    def _within(self, seconds: float, call: Callable[[], Any], otherwise: str) -> Any:
        """Return what a call returns. otherwise: its failure. Raises RefusedError, and what the call refuses."""
        refused: list[RechannelError] = []

        def run() -> Any:
            try:
                return call()
            except RechannelError as error:
                refused.append(error)
                return None

        try:
            returned = within(seconds, run, self.path)
        except FailedCallError as error:
            msg = f"{self.path!r} {otherwise}: {str(error)[-2_000:]}"
            raise RefusedError(msg) from error
        if refused:
            raise refused[0]
        return returned

    def _written(self) -> dict[str, Any]:
        try:
            data: dict[str, Any] = jsonable(dict(self.parameters), PARAMETER_BYTES, "parameters")
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"parameters of {self.path!r}: {error}"
            raise RefusedError(msg) from error
        return data


def checked(kind: type[Controller], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters converted to the annotations of a constructor. Raises RefusedError naming the wrong ones."""
    accepted, hints = _constructor(kind)
    wrong: list[str] = []
    out: dict[str, Any] = {}
    for name, value in list(parameters.items())[: MOST_PARAMETERS + 1]:
        if name not in accepted:
            wrong.append(f"{name[:100]}: there is no such parameter; there are {sorted(accepted)}")
            continue
        try:
            out[name] = msgspec.convert(value, hints.get(name, Any))
        except Exception as error:  # types of the user's own may raise anything
            wrong.append(f"{name}: {str(error)[:500]}")
    wrong += [
        f"{name}: is missing"
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty and name not in parameters
    ]
    if wrong:
        msg = f"parameters of {kind.__module__}:{kind.__qualname__}: {'; '.join(wrong[:20])}"
        raise RefusedError(msg)
    return out


def _constructor(kind: type[Controller]) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    """Parameters that a constructor takes by name, and their annotations. Raises RefusedError."""
    try:
        found = inspect.signature(kind).parameters.items()
        hints = get_type_hints(kind.__init__)
    except Exception as error:  # such as a name that is only imported for type checkers
        msg = f"annotations of {kind.__module__}:{kind.__qualname__} cannot be read: {error}"
        raise RefusedError(msg) from error
    by_name = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return {name: one for name, one in found if one.kind in by_name}, hints
