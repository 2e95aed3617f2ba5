"""`rechannel replay`: committed timesteps again, in a sandbox."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.options import InProcessOption, JsonOption, Target
from rechannel.cli.screen import show, show_json
from rechannel.errors import RefusedError

DIFFERS = 1
"""Exit code if output or state differ."""


def replay(  # noqa: PLR0913, PLR0917 - the options of the command
    target: Target,
    first: Annotated[int, typer.Option("--from", metavar="T", help="The first timestep.")],
    last: Annotated[
        int | None, typer.Option("--to", metavar="T", help="The last one; default: the first.")
    ] = None,
    logic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=MODULE:FUNCTION",
            help="Other logic for a node, by its import path. May be repeated.",
        ),
    ] = None,
    examples: Annotated[
        int,
        typer.Option(
            min=0, help="Maximum number of rows to show of every difference, on either side."
        ),
    ] = 10,
    directory: Annotated[
        str | None,
        typer.Option(help="Where to put temporary files: all executors must see it."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="A module whose functions nodes may have been given while the job ran. May be repeated.",
        ),
    ] = None,
    in_process: InProcessOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run committed timesteps again, and compare with what was committed.

    The state directory of the job in FILE is only read, and nothing is published. The job may run
    meanwhile. Exit code 1 if output or state differ, 2 if the timesteps cannot be replayed.
    """
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.job import InProcess

    functions = dict(_split(text) for text in logic or ())
    file, name = split_target(target)
    job = find_job(load(file), name)
    found = job.replay(
        range(first, (first if last is None else last) + 1),
        logic=functions,
        examples=examples,
        directory=directory,
        allow=allow or (),
        in_process=InProcess() if in_process else None,
    )
    if as_json:
        show_json({"equal": found.equal, **found.to_dict()})
    else:
        show(str(found))
    if not found.equal:
        raise typer.Exit(DIFFERS)


def _split(text: str) -> tuple[str, str]:
    node, equals, path = text.partition("=")
    if not equals or ":" not in path:
        msg = f"--logic {text!r} is not NODE=MODULE:FUNCTION, such as counts=shop.logic:faster"
        raise RefusedError(msg)
    return node, path
