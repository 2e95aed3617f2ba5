"""Can the user's functions be sent to workers? If not, which variable is to blame?

The caller passes how functions are pickled (`dumps`), since this package knows no engine.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rechannel.dataflow.graph.nodes import Dataflow, MapBatches, Node, Source, Stateful
from rechannel.dataflow.graph.rules import label
from rechannel.errors import SerialisationError
from rechannel.kernels.functions.user_errors import function_name

Dumps = Callable[[Any], bytes]


def check_functions(dataflow: Dataflow, dumps: Dumps) -> None:
    """Raise SerialisationError for the first function that workers need and cannot get.

    Functions that run on the driver (transform, for_each_batch) may hold anything.
    """
    for node in dataflow.nodes:
        for function in functions_of(node):
            error = _refusal(function, dumps)
            if error is not None:
                raise SerialisationError(_message(node, function, error, dumps)) from error


def functions_of(node: Node) -> Iterator[Any]:
    """The user's functions of a node that run on workers."""
    if isinstance(node, MapBatches):
        yield from _callables(node.function) if is_dataclass(node.function) else [node.function]
    elif isinstance(node, Stateful):
        yield from _callables(node.spec)
    elif isinstance(node, Source):
        yield from node.connector.user_functions


def _callables(value: Any) -> Iterator[Any]:
    for field in fields(value) if is_dataclass(value) else ():
        part = getattr(value, field.name)
        if callable(part) or field.name == "source":
            yield part


def _refusal(value: Any, dumps: Dumps) -> Exception | None:
    """Why a value cannot be pickled; None if it can. It runs anyone's code, so all may happen."""
    try:
        dumps(value)
    except Exception as error:
        return error
    return None


def _message(node: Node, function: Any, error: Exception, dumps: Dumps) -> str:
    blame = _blame(function, dumps)
    because = (
        f"its variable {blame[0]!r} ({type(blame[1]).__name__}) cannot be pickled"
        if blame
        else "it cannot be pickled"
    )
    return (
        f"{label(node)}: function {function_name(function)} cannot be sent to workers: {because} "
        f"({type(error).__name__}: {error}); make it inside the function, or pass plain values"
    )


def _blame(function: Any, dumps: Dumps, above: tuple[Any, ...] = ()) -> tuple[str, Any] | None:
    """The first thing a function holds that cannot be pickled, by the path to it."""
    above = (*above, function)
    for name, value in _held(function).items():
        if any(value is other for other in above) or _refusal(value, dumps) is None:
            continue
        deeper = _blame(value, dumps, above) if callable(value) else None
        return (f"{name}.{deeper[0]}", deeper[1]) if deeper else (name, value)
    return None


def _held(function: Any) -> Mapping[str, Any]:
    """What a function takes with it: enclosing variables, globals, defaults, attributes."""
    if isinstance(function, functools.partial):
        bound = {f"argument {i}": value for i, value in enumerate(function.args)}
        return {"func": function.func, **bound, **function.keywords}
    if inspect.ismethod(function):
        return {"self": function.__self__}
    if inspect.isfunction(function):
        used = inspect.getclosurevars(function)
        defaults = {
            parameter.name: parameter.default
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is not inspect.Parameter.empty
        }
        return {**used.nonlocals, **used.globals, **defaults}
    return dict(getattr(function, "__dict__", {}))
