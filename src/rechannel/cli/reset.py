"""`rechannel reset`: a source of a job that does not run begins again at another place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from rechannel.cli.jobs.reconfigure import CAUSE, CauseOption
from rechannel.cli.options import AllowOption, InProcessOption, JsonOption, Target
from rechannel.cli.screen import show, show_json
from rechannel.errors import RefusedError


def reset(  # noqa: PLR0917 - the options of the command
    target: Target,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Name of the source.")],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="A time with its zone, or offsets by topic and partition. [default: where a new job begins]",
        ),
    ] = None,
    accept_repeats_and_gaps: Annotated[
        bool,
        typer.Option(
            "--accept-repeats-and-gaps",
            help="Do it. Rows that are read again count twice, and rows that are passed over are missing.",
        ),
    ] = False,
    cause: CauseOption = CAUSE,
    allow: AllowOption = None,
    in_process: InProcessOption = False,
    as_json: JsonOption = False,
) -> None:
    """Let a source begin again at another place. No driver may run; no input is read.

    State and what was published stay. Without --accept-repeats-and-gaps it says where the source is
    and where it would go, and is refused.
    """
    from rechannel.cli.program import find_job, load, split_target
    from rechannel.job import InProcess

    file, name = split_target(target)
    job = find_job(load(file), name)
    moved = job.reset(
        source,
        to=place_of(to),
        accept_repeats_and_gaps=accept_repeats_and_gaps,
        cause=cause,
        allow=allow or (),
        in_process=InProcess() if in_process else None,
    )
    if as_json:
        show_json({"source": source, "moved": moved})
    elif moved:
        show(f"Source {source!r} is reset: rechannel history shows from where to where.")
    else:
        show(f"Source {source!r} is there already.")


def place_of(text: str | None) -> datetime | Mapping[str, Mapping[int, int]] | None:
    """Read a time in ISO 8601, or offsets as JSON. Raises RefusedError."""
    if text is None:
        return None
    try:
        if not text.lstrip().startswith("{"):
            return datetime.fromisoformat(text)
        made: dict[str, dict[str, Any]] = json.loads(text)
        return {topic: {int(p): offset for p, offset in of.items()} for topic, of in made.items()}
    except (ValueError, AttributeError, TypeError) as error:
        msg = (
            f"--to {text}: write a time with its zone, such as 2026-01-31T12:00:00Z, or offsets, such as"
            f' \'{{"clicks": {{"0": 1200}}}}\' ({error})'
        )
        raise RefusedError(msg) from error
