"""`rechannel plan`: what a change of a running job would do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption
from rechannel.cli.remote.commands import Json, group, url_of
from rechannel.cli.remote.options import expanded
from rechannel.cli.remote.strategy import ChosenStrategy
from rechannel.cli.screen import say, show, show_json
from rechannel.errors import RefusedError


@expanded
def _plan(
    change: Json,
    context: typer.Context,
    strategy: ChosenStrategy,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the plan for `rechannel reconfigure --plan`."),
    ] = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    from rechannel.reconfigure.plan import Plan

    with Client(url_of(context), token) as job:
        answer = job.post("plan", body={"change": change, "strategy": strategy})
    if save is not None:
        _save(save, answer)
    if as_json:
        show_json(answer)
    else:
        show(str(Plan.from_json(answer)))


plan = group("Show what a change of a running job would do, without making it.", _plan)


def _save(file: Path, answer: Json) -> None:
    try:
        file.write_text(json.dumps(answer, indent=1), encoding="utf-8")
    except OSError as error:
        msg = f"the plan cannot be written to {file}: {error.strerror}"
        raise RefusedError(msg) from error
    say(f"the plan is in {file}")
