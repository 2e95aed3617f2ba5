"""Former names of arguments: a call that still uses one is refused with the present name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

from rechannel.dataflow.graph.naming import caller
from rechannel.errors import DataflowError

F = TypeVar("F", bound=Callable[..., Any])

EMIT = {"complete": "on_close", "change": "on_update"}
"""Former values of `emit=`, and the present ones."""


def renamed(**names: str) -> Callable[[F], F]:
    """Make a method refuse former names of its arguments: `@renamed(on="time_column")`."""

    def decorate(method: F) -> F:
        @wraps(method)
        def checked(*given: Any, **named: Any) -> Any:
            _refuse(method.__name__, names, named)
            return method(*given, **named)

        return cast("F", checked)

    return decorate


def refuse_former(method: str, columns: Mapping[str, Any], **names: str) -> None:
    """Refuse a former name among new columns, which may have any name, if its value is no column.

    Raises DataflowError.
    """
    wrong = {name: value for name, value in columns.items() if _is_former(value)}
    _refuse(method, names, wrong)


def _is_former(value: object) -> bool:
    """Whether a value is what the argument once took: a column's name, or a function."""
    return isinstance(value, str | FunctionType)


def _refuse(method: str, names: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raise DataflowError for the first former name that a call used."""
    for old, new in names.items():
        if old in given:
            msg = f"{method} ({caller()}): there is no argument {old}=; use {new}="
            raise DataflowError(msg)


def emission_hint(emit: object) -> str:
    """End of a message: which value of `emit=` took the place of a former one; empty if none."""
    new = EMIT.get(emit) if isinstance(emit, str) else None
    return "" if new is None else f"; emit={new!r} is what emit={emit!r} was"
