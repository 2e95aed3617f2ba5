"""`rechannel abort`: end a reconfiguration, or lead it back."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, UrlArgument
from rechannel.cli.screen import show, show_json


def abort(
    url: UrlArgument,
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the reconfiguration, such as r3.")
    ],
    reason: Annotated[
        str, typer.Option(help="The reason, for the history.")
    ] = "asked for on the command line",
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a reconfiguration that has not begun, or lead back one that has."""
    with Client(url, token) as job:
        answer = job.post("reconfigurations", id_, "abort", body={"reason": reason})
    if as_json:
        show_json(answer)
    else:
        how = "is led back" if answer["open"] else f"is {answer['phase']}"
        show(f"Reconfiguration {id_} {how}.")
