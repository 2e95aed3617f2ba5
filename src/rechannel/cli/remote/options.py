"""Several options of a command line that make one value, written once for all commands that have them.

A command takes such a value as an argument that is annotated with `Made(by)`. The command line shows the parameters of
the function `by` in its place:

    @expanded
    def command(strategy: Annotated[Json | None, Made(strategy_of)], token: TokenOption = None) -> None: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, get_args


@dataclass(frozen=True, slots=True)
class Made:
    """The annotation of an argument that is made from options."""

    by: Callable[..., Any]
    """Makes the value; its parameters are the options. Raises RefusedError for options that exclude each other."""


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: in place of each argument that is `Made`, it takes the options that make it."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    makers = {one.name: maker for one in own if (maker := _maker(one)) is not None}
    options = {name: _options(maker) for name, maker in makers.items()}

    @wraps(command)
    def run(*plain: Any, **given: Any) -> None:
        for name, maker in makers.items():
            chosen = {one.name: given.pop(one.name) for one in options[name]}
            given[name] = maker(**chosen)
        command(*plain, **given)

    def parameters() -> Iterator[inspect.Parameter]:
        for one in own:
            yield from options.get(one.name, (one,))

    every = tuple(parameters())
    run.__annotations__ = {one.name: one.annotation for one in every}
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    return run


def _maker(parameter: inspect.Parameter) -> Callable[..., Any] | None:
    found = (note for note in get_args(parameter.annotation) if isinstance(note, Made))
    return next((note.by for note in found), None)


def _options(maker: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(maker, eval_str=True).parameters.values())
