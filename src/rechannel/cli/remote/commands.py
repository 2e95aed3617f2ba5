"""`COMMAND URL CHANGE ...`: every change as a sub-command, with the options of the command around it.

What a change is (`rescale counts --tasks 8`) and what becomes of it (asked for, planned) are two functions; a
sub-command is both, one behind the other, with the parameters of both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from rechannel.cli.remote import logic, pace, resources, workload
from rechannel.cli.remote.client import UrlArgument
from rechannel.cli.remote.workload import Json

CHANGES: dict[str, Callable[..., Json]] = {
    "rescale": workload.rescale,
    "rebalance": workload.rebalance,
    "move": workload.move,
    "split": workload.split,
    "merge": workload.merge,
    "rewrite": workload.rewrite,
    "place": resources.place,
    "combine": pace.combine,
    "set-interval": pace.set_interval,
    "set-in-flight": pace.set_in_flight,
    "set-bound": pace.set_bound,
    "executors": resources.executors,
    "assign-resources": resources.assign_resources,
    "assign-logic": logic.assign_logic,
}

UNNAMED = "--plan"
"""The command of a group that is meant where an option stands in place of a command's name."""


class WithUnnamed(TyperGroup):
    """A group in which `URL --plan FILE` is a command too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is meant, and its arguments."""
        if UNNAMED in self.commands and args[0].startswith("-"):
            return UNNAMED, self.commands[UNNAMED], args
        return super().resolve_command(ctx, args)


def url_of(context: typer.Context) -> str:
    """What stands before the change."""
    return str(context.obj)


def group(
    words: str, then: Callable[..., None], unnamed: Callable[..., None] | None = None
) -> typer.Typer:
    """A command with a sub-command for each change. then: takes the change, with the options that all share."""
    made = typer.Typer(
        help=words, cls=WithUnnamed, no_args_is_help=True, subcommand_metavar="CHANGE ..."
    )

    @made.callback(help=words)
    def before(context: typer.Context, url: UrlArgument) -> None:
        context.obj = url

    for name, change in CHANGES.items():
        made.command(name)(both(change, then))
    if unnamed is not None:
        made.command(UNNAMED, hidden=True)(unnamed)
    return made


def both(change: Callable[..., Json], then: Callable[..., None]) -> Callable[..., None]:
    """A function with the parameters of both: `then` gets what `change` returns, and what is its own."""
    own = inspect.signature(change, eval_str=True).parameters
    shared = dict(list(inspect.signature(then, eval_str=True).parameters.items())[1:])

    def command(**given: Any) -> None:
        made = change(**{name: given[name] for name in own})
        then(made, **{name: given[name] for name in shared})

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*own.values(), *shared.values())
    ]
    command.__doc__ = change.__doc__
    command.__name__ = change.__name__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command
