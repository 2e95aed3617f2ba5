"""`rechannel watch`: a running job on the terminal."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.live import Live

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, UrlArgument
from rechannel.cli.remote.frame import frame
from rechannel.cli.screen import out, say, show_json
from rechannel.errors import NotReadyError

RECENT = 60
"""Timesteps in the chart of latencies."""


def watch(
    url: UrlArgument,
    once: Annotated[
        bool, typer.Option("--once", help="Show the present state once, and end.")
    ] = False,
    every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds between two updates.")
    ] = 0.5,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch a running job: latency, operators, and what open reconfigurations move.

    Until the job ends, or Ctrl-C. Where there is no terminal it is shown once.
    """
    with Client(url, token) as job:
        facts = look(job)
        if as_json:
            show_json(facts)
        elif once or not out().is_terminal:
            out().print(frame(facts))
        else:
            _follow(job, facts, every)


def look(job: Client) -> dict[str, Any]:
    """Status, progress and open reconfigurations."""
    return {
        "status": job.get("status"),
        "progress": job.get("progress", recent=RECENT),
        "open": job.get("reconfigurations", open="true")["reconfigurations"],
    }


def _follow(job: Client, facts: dict[str, Any], every: float) -> None:
    try:
        with Live(frame(facts), console=out(), auto_refresh=False) as live:
            while facts["status"]["active"]:
                time.sleep(every)
                try:
                    facts = look(job)
                except NotReadyError:
                    say("the job no longer answers")
                    return
                live.update(frame(facts), refresh=True)
    except KeyboardInterrupt:
        return  # Ctrl-C ends it
