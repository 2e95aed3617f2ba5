"""`rechannel deploy`: another version of the program takes over in a running job."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from rechannel.cli.jobs.reconfigure import (
    ChosenMoment,
    ChosenWait,
    check_end,
    outcome,
    wait_for_end,
)
from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, UrlArgument, base_of
from rechannel.cli.remote.options import expanded
from rechannel.cli.screen import show, show_json

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@expanded
def deploy(  # noqa: PLR0917 - the options of the command
    url: UrlArgument,
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:name]",
            help="A Python file on the machine of the job, and the variable of the job in it.",
        ),
    ],
    moment: ChosenMoment,
    wait: ChosenWait,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would happen.")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An operator whose state, or a source whose offsets are dropped. May be repeated.",
        ),
    ] = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let another version of the program take over in a running job, without a stop.

    The job's machine imports FILE from where its owner allows it (`rechannel run --programs`); no
    code is sent. If FILE is here, too, another one there is refused. Shows what happens to every
    part of the program, and carries it out at the next timestep boundary.
    """
    body = asked(url, target, without or ())
    with Client(url, token) as job:
        planned = job.post("deploy", "plan", body=body)
        answer: dict[str, Any] = {"id": None}
        if not plan and _changes(planned):
            if not as_json:
                show(planned["text"])
            # What was shown is what is carried out.
            sent = {**body, "sha256": planned["sha256"], **moment}
            answer = job.post("deploy", body=sent)
            if answer["id"] is not None and wait is not None:
                answer = wait_for_end(job, answer["id"], wait)
    if as_json:
        show_json({"plan": planned["plan"], "sha256": planned["sha256"], **answer})
    elif answer["id"] is None:
        show(planned["text"])
    else:
        show(outcome(answer))
    if answer["id"] is not None:
        check_end(url, answer, wait=wait)


def asked(url: str, target: str, without: object) -> dict[str, Any]:
    """Return the body of a request. A job on this machine gets the whole path, and a file that is here its digest."""
    from rechannel.cli.program import split_name

    file, name = split_name(target)
    here = file.is_file()
    alike = here and urlsplit(base_of(url)).hostname in _LOOPBACK
    body: dict[str, Any] = {"file": str(file.resolve() if alike else file), "without": without}
    if here:
        body["sha256"] = sha256(file.read_bytes()).hexdigest()
    return body if name is None else {**body, "name": name}


def _changes(planned: Mapping[str, Any]) -> bool:
    """Whether a plan changes anything."""
    return bool(planned["plan"]["base"] != planned["plan"]["version"])
