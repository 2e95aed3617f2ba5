"""`rechannel control`: install a controller in a running job, pause, resume, trigger or remove it."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.jobs.controllers import condition
from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, UrlArgument
from rechannel.cli.remote.commands import url_of
from rechannel.cli.remote.values import seconds
from rechannel.cli.screen import show, show_json
from rechannel.errors import RefusedError

WORDS = "Install a controller in a running job, pause, resume, trigger or remove it."

NameArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the controller.")
]

control = typer.Typer(
    help=WORDS, no_args_is_help=True, subcommand_metavar="ACTION ...", rich_markup_mode=None
)


@control.callback(help=WORDS)
def before(context: typer.Context, url: UrlArgument) -> None:
    """Keep the URL for the action."""
    context.obj = url


@control.command()
def install(  # noqa: PLR0913, PLR0917 - the options of the command
    context: typer.Context,
    path: Annotated[
        str,
        typer.Argument(metavar="PATH", help="Its class in an allowed module, as `module:name`."),
    ],
    name: Annotated[
        str | None, typer.Option(help="Its name. [default: that of the class in lower case]")
    ] = None,
    parameters: Annotated[
        str, typer.Option(metavar="JSON", help="Arguments of its constructor, as a JSON object.")
    ] = "{}",
    priority: Annotated[
        int, typer.Option(help="Its changes supersede those of controllers with a lower one.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only write what it requests to its log.")
    ] = False,
    callback_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="Longest time of a callback, such as 500ms or 30s.")
    ] = "10s",
    failures: Annotated[
        int, typer.Option(metavar="N", help="Failed callbacks in a row that suspend it.")
    ] = 3,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install a controller of an allowed module in the running stream."""
    body = {
        "path": path,
        "name": name,
        "parameters": _object(parameters),
        "priority": priority,
        "dry_run": dry_run,
        "seconds": seconds(callback_timeout),
        "failures": failures,
    }
    with Client(url_of(context), token) as job:
        answer = job.post("controllers", body=body)
    _show(answer, "installed", as_json=as_json)


@control.command()
def pause(
    context: typer.Context,
    name: NameArgument,
    reason: Annotated[
        str, typer.Option(help="The reason, for its status and its log.")
    ] = "asked for on the command line",
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a controller begin no operation; one that is under way completes."""
    answer = _command(context, token, name, "pause", {"reason": reason})
    _show(answer, condition(answer), as_json=as_json)


@control.command()
def resume(
    context: typer.Context,
    name: NameArgument,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a controller go on after a pause or a suspension."""
    answer = _command(context, token, name, "resume", {})
    _show(answer, condition(answer), as_json=as_json)


@control.command()
def trigger(
    context: typer.Context,
    name: NameArgument,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a controller begin at the next timestep boundary."""
    answer = _command(context, token, name, "trigger", {})
    _show(answer, "triggered", as_json=as_json)


@control.command()
def remove(
    context: typer.Context,
    name: NameArgument,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove a controller and its state; changes that it has requested go on."""
    answer = _command(context, token, name, "remove", {})
    _show(answer, "removed", as_json=as_json)


def _command(
    context: typer.Context, token: str | None, name: str, action: str, body: dict[str, Any]
) -> dict[str, Any]:
    with Client(url_of(context), token) as job:
        return job.post("controllers", name, action, body=body)


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"--parameters is not JSON ({error}): write an object, such as '{{\"most\": 600}}'"
        raise RefusedError(msg) from error
    if not isinstance(data, dict):
        msg = (
            f"--parameters is a {type(data).__name__}: write an object, such as '{{\"most\": 600}}'"
        )
        raise RefusedError(msg)
    return data


def _show(answer: dict[str, Any], what: str, *, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        show(f"Controller {answer['name']} is {what}.")
