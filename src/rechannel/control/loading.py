"""Makes controllers from import paths and parameters, as HTTP and the command line name them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from rechannel.control.controller import Controller
from rechannel.errors import RefusedError

MOST_PARAMETERS = 100


def made(path: str, parameters: Mapping[str, Any], find: Callable[[str], Any]) -> Controller:
    """Return a controller. find: imports what a path names, after it has checked that it may.

    Raises:
        RefusedError: the path names no controller, or the parameters do not fit its constructor.
    """
    kind = find(path)
    if not (isinstance(kind, type) and issubclass(kind, Controller)) or kind is Controller:
        msg = f"{path!r} is no controller: name a class derived from rc.control.Controller"
        raise RefusedError(msg)
    return kind(**checked(kind, parameters))


def checked(kind: type[Controller], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters converted to the annotations of a constructor. Raises RefusedError naming the wrong ones."""
    accepted = {
        name: parameter
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind in {parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    }
    hints = get_type_hints(kind.__init__)
    wrong: list[str] = []
    out: dict[str, Any] = {}
    for name, value in list(parameters.items())[: MOST_PARAMETERS + 1]:
        if name not in accepted:
            wrong.append(f"{name[:100]}: there is no such parameter; there are {sorted(accepted)}")
            continue
        try:
            out[name] = msgspec.convert(value, hints.get(name, Any))
        except msgspec.ValidationError as error:
            wrong.append(f"{name}: {error}")
    wrong += [
        f"{name}: is missing"
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty and name not in parameters
    ]
    if wrong:
        msg = f"parameters of {kind.__module__}:{kind.__qualname__}: {'; '.join(wrong[:20])}"
        raise RefusedError(msg)
    return out
