"""`rechannel fork`: a new state directory that begins where another one is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.screen import count, show, show_json, size
from rechannel.errors import RefusedError


def fork(
    directory: Annotated[
        str, typer.Argument(metavar="STATE_DIR", help="State directory of the job.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A directory that is not there yet.")],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A savepoint, at which it begins; the job may run. [default: the latest commit; no driver may run]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin a new state directory at a savepoint of another one.

    Segments are linked, not copied: both directories have to be on one file system. The fork has a journal and a lease
    of its own. Its program has to give its sinks other places.
    """
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.engine.repair import forking
    from rechannel.engine.repair.this_hand import this_hand
    from rechannel.state.stores.local import directory_of

    opened = open_directory(directory, durable=True)
    origin = directory_of(opened.store)
    if origin is None:
        msg = f"{directory} is not a directory: only segments in a file system can be linked"
        raise RefusedError(msg)
    made = forking.fork(origin, new, this_hand(), at)
    if as_json:
        show_json({"directory": str(new.absolute()), **asdict(made)})
        return
    kept = f"{count(made.files)} segments, {size(made.bytes)}, are those of {directory}"
    show(f"{new} begins after timestep {made.timestep}; {kept}.")
    show(f'Give its program state="{new}" and other places for its sinks.')
