"""Changes of how timesteps are made. Each function is a sub-command, and returns the change as JSON."""

from __future__ import annotations

from typing import Annotated

import typer

from rechannel.cli.remote.values import milliseconds
from rechannel.cli.remote.workload import Json, Operator
from rechannel.errors import RefusedError


def combine(
    operator: Operator,
    mode: Annotated[str, typer.Argument(metavar="MODE", help="on, off or auto.")],
) -> Json:
    """Pre-aggregate what an operator receives."""
    return {"kind": "combine", "operator": operator, "mode": mode}


def set_interval(
    interval: Annotated[
        str, typer.Argument(metavar="TIME", help="As 500ms or 2s; 0: as soon as possible.")
    ],
) -> Json:
    """Set the distance between timestep starts."""
    return {"kind": "set_interval", "interval_ms": round(milliseconds(interval))}


def set_in_flight(
    timesteps: Annotated[int, typer.Argument(metavar="N", help="Most at once.")],
) -> Json:
    """Set how many timesteps may be under way at once."""
    return {"kind": "set_in_flight", "timesteps": timesteps}


def set_bound(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Its name.")],
    most: Annotated[
        str,
        typer.Argument(metavar="MOST", help="Rows (files, of files), or `none`: its own bound."),
    ],
    size: Annotated[
        int | None, typer.Option("--bytes", metavar="N", min=1, help="About so many bytes of rows.")
    ] = None,
) -> Json:
    """Bound what a timestep takes of a source."""
    if most != "none" and not most.isdecimal():
        msg = f"{most!r} is no bound: write a number, or none for the source's own"
        raise RefusedError(msg)
    bound = None if most == "none" else int(most)
    told = {"kind": "set_bound", "source": source, "most": bound}
    return told if size is None else {**told, "bytes": size}
