"""Makes controllers from import paths and parameters, as HTTP, the command line and the journal name them.

What a path names is found by a function that checks first whether it may be imported. The constructor is code of the
module that is allowed, but what it is given is not: parameters are converted strictly to its annotations, and it has as
much time as a callback.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, product
from types import UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from msgspec import Meta

from rechannel.control.controller import Controller, Installation, check_settings, install
from rechannel.control.events import Installed
from rechannel.dataflow.identity.factories import (
    MOST_PARAMETERS,
    Find,
    call_within,
    converted,
    signature_of,
)
from rechannel.errors import RefusedError
from rechannel.kernels.tasks.limited import jsonable

__all__ = ["IMPORT_SECONDS", "MOST_PARAMETERS", "PARAMETER_BYTES", "Find", "ImportPath", "Wanted"]

IMPORT_SECONDS = 120.0
"""How long the import of a module may take: a driver that starts again waits for it."""

_IMPORTED = "imported"

ImportPath: TypeAlias = Annotated[
    str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$"), _IMPORTED
]
"""A parameter of a controller that names a function, as `module:name`. It is held to the rules of the controller's own
path: a request may name what the job's owner allows, and nothing else."""

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
        kind = call_within(
            IMPORT_SECONDS, partial(find, self.path), self.path, "cannot be imported"
        )
        if not (isinstance(kind, type) and issubclass(kind, Controller)) or kind is Controller:
            msg = f"{self.path!r} is no controller: name a class derived from rc.control.Controller"
            raise RefusedError(msg)
        parameters = self._written()
        values = checked(kind, parameters, find)
        made = partial(kind, **values)
        controller = call_within(self.seconds, made, self.path, "cannot be made")
        installation = install(
            controller,
            name=self.name,
            priority=self.priority,
            dry_run=self.dry_run,
            seconds=self.seconds,
            failures=self.failures,
        )
        return replace(installation, path=self.path, parameters=parameters)

    def _written(self) -> dict[str, Any]:
        try:
            data: dict[str, Any] = jsonable(dict(self.parameters), PARAMETER_BYTES, "parameters")
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"parameters of {self.path!r}: {error}"
            raise RefusedError(msg) from error
        return data


def checked(kind: type[Controller], parameters: Mapping[str, Any], find: Find) -> dict[str, Any]:
    """Return parameters converted to the annotations of a constructor; import paths among them are imported.

    Raises RefusedError naming the wrong ones, and what `find` raises.
    """
    path = f"{kind.__module__}:{kind.__qualname__}"
    values = converted(kind, path, parameters)
    _, hints = signature_of(kind, path)
    for name, value in values.items():
        failed = f"cannot be imported, for parameter {name!r} of {path}"
        for each in _paths_in(hints.get(name), value):
            call_within(IMPORT_SECONDS, partial(find, each), each, failed)
    return values


def _paths_in(hint: Any, value: Any) -> Iterator[str]:
    """Yield the values that are annotated as `ImportPath`: a parameter, or what it holds as a list or by name."""
    kinds = get_args(hint)
    if _IMPORTED in kinds:
        yield from [value] if isinstance(value, str) else []
    elif get_origin(hint) in {Union, UnionType, Annotated}:
        for kind in kinds:
            yield from _paths_in(kind, value)
    elif isinstance(value, Mapping):
        for each in value.items():
            yield from chain.from_iterable(map(_paths_in, kinds, each))
    elif isinstance(value, list | tuple | set | frozenset):
        for one, kind in product(value, kinds):
            yield from _paths_in(kind, one)
