"""`rechannel advice`: how much a running job needs, and what its controllers have decided."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, UrlArgument
from rechannel.cli.remote.values import seconds
from rechannel.cli.screen import show_json


def advice(  # noqa: PLR0913, PLR0917 - a command line
    url: UrlArgument,
    policy: Annotated[str, typer.Option(help="The policy that is asked, such as ds2.")] = (
        "ds2-timesteps"
    ),
    utilisation: Annotated[
        float, typer.Option(help="Share of the interval that may be used.")
    ] = 0.8,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The interval to keep, such as 2s or 500ms. [default: that of the stream]",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Rows per second that arrive. [default: what was measured]"),
    ] = None,
    window: Annotated[
        str, typer.Option(metavar="TIME", help="The time that a window covers.")
    ] = "10s",
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with pictures."),
    ] = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how much a running job needs by what it measured, and what its controllers have decided."""
    from rechannel.cli.advice.shown import write_page
    from rechannel.cli.advice.stream import show_stream
    from rechannel.scaling.needs.values import StreamAdvice

    asked = {
        "policy": policy,
        "utilisation": utilisation,
        "interval": None if interval is None else seconds(interval),
        "rate": rate,
        "window": seconds(window),
    }
    with Client(url, token) as job:
        answer = job.get("advice", **{n: str(v) for n, v in asked.items() if v is not None})
    made = StreamAdvice.from_dict(answer)
    write_page(made, page)
    if as_json:
        show_json(answer)
    else:
        show_stream(made)
