"""`COMMAND URL CHANGE ...`: every registered change as a sub-command, with the options of the command around it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from typer.core import TyperGroup

from rechannel.cli.remote.client import UrlArgument

if TYPE_CHECKING:
    from rechannel.reconfigure.changes.change import Change

Json: TypeAlias = dict[str, Any]

Then: TypeAlias = Callable[..., None]
"""What happens with a change: takes it as JSON, then the options of the command."""

LEFT_OUT = ("assign_workload",)
"""Changes without a sub-command: a whole routing is too long to type."""

UNNAMED = "--plan"
"""The command of a group for an option in place of a command's name."""


def url_of(context: typer.Context) -> str:
    """The URL before the change."""
    return str(context.obj)


def changes() -> Mapping[str, type[Change]]:
    """Registered changes by the name of their sub-command."""
    from rechannel.reconfigure.changes.registry import requestable

    kinds = [kind for kind in requestable() if kind.kind not in LEFT_OUT]
    return {kind.kind.replace("_", "-"): kind for kind in kinds}


def group(words: str, then: Then, unnamed: Then | None = None) -> typer.Typer:
    """A command with a sub-command for each change."""

    class Group(_Group):
        def sub_command(self, kind: type[Change]) -> Any:
            return command(kind, then)

    made = typer.Typer(help=words, cls=Group, no_args_is_help=True, subcommand_metavar="CHANGE ...")

    @made.callback(help=words)
    def before(context: typer.Context, url: UrlArgument) -> None:
        context.obj = url

    if unnamed is not None:
        made.command(UNNAMED, hidden=True)(unnamed)
    return made


class _Group(TyperGroup):
    """A group that reads the registry when a command line needs it: importing it takes time."""

    def sub_command(self, kind: type[Change]) -> Any:
        """The sub-command of a change."""
        raise NotImplementedError

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all sub-commands."""
        return [*super().list_commands(ctx), *changes()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The sub-command of a name, or None."""
        kind = changes().get(cmd_name)
        return super().get_command(ctx, cmd_name) if kind is None else self.sub_command(kind)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The sub-command of a command line, where `URL --plan FILE` is one too."""
        if UNNAMED in self.commands and args[0].startswith("-"):
            return UNNAMED, self.commands[UNNAMED], args
        return super().resolve_command(ctx, args)


def command(kind: type[Change], then: Then) -> Any:
    """The sub-command of a change, with the fields of the change and the options of `then` as parameters."""
    from rechannel.cli.remote.fields import written

    own = written(kind)
    shared = dict(list(inspect.signature(then, eval_str=True).parameters.items())[1:])

    def run(**given: Any) -> None:
        values = {one.name: one.value(given[one.key]) for one in own if one.has(given[one.key])}
        then(kind(**values).to_json(), **{name: given[name] for name in shared})

    parameters = [one.parameter() for one in own]
    parameters += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shared.values()]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    name = kind.kind.replace("_", "-")
    alone.command(name, help=inspect.getdoc(kind))(run)
    return typer.main.get_command(alone)
