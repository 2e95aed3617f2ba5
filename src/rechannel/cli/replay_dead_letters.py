"""`rechannel replay-dead-letters`: rows that an operator could not handle, once more."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.jobs.reconfigure import CAUSE, CauseOption
from rechannel.cli.options import JsonOption, Target
from rechannel.cli.screen import show, show_json


def replay_dead_letters(  # noqa: PLR0917 - the options of the command
    target: Target,
    operator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An operator with `with_replays` before it; default: all of them. May be repeated.",
        ),
    ] = None,
    error: Annotated[
        str, typer.Option(metavar="TEXT", help="Only rows whose error has this text in it.")
    ] = "",
    since: Annotated[
        int | None,
        typer.Option("--from", metavar="T", help="Only rows of this timestep or a later one."),
    ] = None,
    until: Annotated[
        int | None,
        typer.Option("--to", metavar="T", help="Only rows of this timestep or an earlier one."),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show what would be tried again.")
    ] = False,
    cause: CauseOption = CAUSE,
    as_json: JsonOption = False,
) -> None:
    """Let an operator try its dead letters once more, as input of the next timesteps.

    FILE is the program that the state directory belongs to. The job may run meanwhile, or be started
    later. A second call takes only what no call has taken.
    """
    from rechannel.cli.program import find_job, load, split_target

    file, name = split_target(target)
    job = find_job(load(file), name)
    found = job.replay_dead_letters(
        *(operator or ()), error=error, since=since, until=until, plan=plan, cause=cause
    )
    if as_json:
        show_json(found.to_dict())
    else:
        show(str(found))
