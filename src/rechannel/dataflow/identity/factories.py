"""Functions that are made of parameters, such as a model of its coefficients: by a factory, which an import path names.

Code that is named from outside is called here, so every call is limited in time, and what it is given is converted
strictly to its annotations. Parameters are part of the journal, so they are JSON of a limited size.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, get_type_hints

import msgspec

from rechannel.errors import RechannelError, RefusedError
from rechannel.kernels.tasks.limited import FailedCallError, exceeds, jsonable, within
from rechannel.model.codec import Json

Find: TypeAlias = Callable[[str], Any]
"""Returns what an import path names. Raises RefusedError or DataflowError if it may not be imported, or cannot be."""

FACTORY_SECONDS = 10.0
"""How long a factory may take."""

FACTORY_BYTES = 256 << 10
"""Bytes that the parameters of a factory may have, as JSON."""

MOST_PARAMETERS = 100

SHOWN = 200
"""Characters of parameters that are shown in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factory:
    """Makes a function of parameters."""

    path: str
    """Import path of what makes it."""
    parameters: Mapping[str, Json]

    def made(self, find: Find) -> Callable[..., Any]:
        """Return the function.

        Raises:
            RefusedError: the parameters do not fit, or the factory fails, takes too long or returns no function.
            DataflowError: the path cannot be imported.
        """
        factory = find(self.path)
        values = converted(factory, self.path, self.parameters)
        call = partial(factory, **values)
        failed = "made no function of these parameters"
        function = call_within(FACTORY_SECONDS, call, self.path, failed)
        if not callable(function) or isinstance(function, type):
            what = getattr(function, "__qualname__", type(function).__name__)
            msg = f"{self.path!r} returned {what}, which is no function: return the function that the node is to run"
            raise RefusedError(msg)
        made: Callable[..., Any] = function
        return made

    def __str__(self) -> str:
        """The path and the parameters, or how many bytes these have."""
        return f"{self.path!r}, parameters={shown(self.parameters)}"


def shown(parameters: Mapping[str, Json]) -> str:
    """Return parameters as text; of large ones their size and the beginning of their sha256."""
    text = json.dumps(parameters, sort_keys=True)
    if len(text) <= SHOWN:
        return text
    return f"<{len(text):,} bytes, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}>"


def written(parameters: Any) -> dict[str, Json]:
    """Return the parameters of a factory as JSON has them; arrays become lists. Raises RefusedError."""
    too_large = (
        f"they have more than {FACTORY_BYTES:,} bytes as JSON, and are part of the journal: keep a large model in a"
        " file that all workers can read, and give the factory its name and version"
    )
    try:
        plain = _without_arrays(parameters)
        if exceeds(plain, FACTORY_BYTES):
            raise ValueError(too_large)
        data: dict[str, Json] = jsonable(plain, 100 * FACTORY_BYTES, "parameters")
        if len(json.dumps(data)) > FACTORY_BYTES:
            raise ValueError(too_large)
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"parameters: {error}"
        raise RefusedError(msg) from error
    return data


def converted(function: Any, path: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters converted to the annotations of a function or class.

    path: the function in messages. Raises RefusedError naming the wrong ones.
    """
    accepted, hints = signature_of(function, path)
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
        msg = f"parameters of {path}: {'; '.join(wrong[:20])}"
        raise RefusedError(msg)
    return out


def signature_of(function: Any, path: str) -> tuple[dict[str, inspect.Parameter], dict[str, Any]]:
    """Return the parameters that a function or class takes by name, and their annotations. Raises RefusedError."""
    try:
        found = inspect.signature(function).parameters.items()
        kind: Any = function
        called = kind.__init__ if isinstance(function, type) else function
        hints = get_type_hints(called, include_extras=True)
    except Exception as error:  # such as a name that is only imported for type checkers
        msg = f"annotations of {path} cannot be read: {error}"
        raise RefusedError(msg) from error
    by_name = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return {name: one for name, one in found if one.kind in by_name}, hints


def call_within(seconds: float, call: Callable[[], Any], path: str, otherwise: str) -> Any:
    """Return what a call returns. path: whose it is. otherwise: its failure, in words.

    Raises RefusedError, and what the call refuses.
    """
    refused: list[RechannelError] = []

    def run() -> Any:
        try:
            return call()
        except RechannelError as error:
            refused.append(error)
            return None

    try:
        returned = within(seconds, run, path)
    except FailedCallError as error:
        msg = f"{path!r} {otherwise}: {str(error)[-2_000:]}"
        raise RefusedError(msg) from error
    if refused:
        raise refused[0]
    return returned


def _without_arrays(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _without_arrays(each) for name, each in value.items()}
    return [_without_arrays(each) for each in value] if isinstance(value, list | tuple) else value
