"""`rechannel upgrade`: what becomes of a job's state under another program, and the upgrade itself."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.options import AllowOption, InProcessOption, JsonOption, Target
from rechannel.cli.screen import show, show_json


def upgrade(  # noqa: PLR0917 - the options of the command
    target: Target,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show what would happen (the default).")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. No driver may run.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An operator whose state, or a source whose offsets are dropped. May be repeated.",
        ),
    ] = None,
    allow: AllowOption = None,
    in_process: InProcessOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what becomes of the state of a job under another program, and upgrade it on request.

    Without --yes, nothing is changed, and the job may run. With it, the program takes over in the state
    directory; no input is read: start it with `run`. `run --upgrade` does both.
    """
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.errors import RefusedError
    from rechannel.job import InProcess

    if plan and yes:
        msg = "--plan only shows what --yes does: give one of them"
        raise RefusedError(msg)
    file, name = split_target(target)
    job = find_job(load(file), name)
    how = {"without": without or (), "allow": allow or ()}
    there = InProcess() if in_process else None
    planned = job.plan_upgrade(in_process=there, **how)
    if yes and planned:
        job.upgrade(in_process=there, **how)
    if as_json:
        show_json({**planned.to_json(), "done": yes and bool(planned)})
        return
    show(str(planned))
    if yes and planned:
        show(f"Done: version {planned.version} has taken over.")
    elif planned:
        show(f"rechannel upgrade {target} --yes does it.")
