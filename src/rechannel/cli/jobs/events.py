"""`rechannel events`: the telemetry of a job."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.options import StateTarget
from rechannel.cli.screen import show, show_json
from rechannel.errors import RefusedError

if TYPE_CHECKING:
    from rechannel.telemetry.events import Event
    from rechannel.telemetry.reading import EventReader

_POLL_SECONDS = 0.2


def events(
    directory: StateTarget,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Show new events as they are written, until Ctrl-C."),
    ] = False,
    last: Annotated[int | None, typer.Option(min=0, help="Begin with the latest N events.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only events of this kind. May be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per line.")] = False,
) -> None:
    """Show the telemetry of a job.

    Timesteps, tasks, operators, sinks and errors, oldest first; times are in UTC."""
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.cli.jobs.describe import describe
    from rechannel.telemetry.events import event_to_json
    from rechannel.telemetry.reading import EventReader, read_events

    where = open_directory(directory).telemetry
    wanted = _kinds(kind)
    if follow:
        reader = EventReader(where)
        past: Iterable[Event] = reader.read()
        following = _follow(reader)
    else:
        past, following = read_events(where), iter(())
    chosen: Iterable[Event] = (event for event in past if event.KIND in wanted)
    if last is not None:
        chosen = deque(chosen, maxlen=last)
    try:
        for event in chain(chosen, (event for event in following if event.KIND in wanted)):
            if as_json:
                show_json(event_to_json(event), indent=None)
            else:
                show(describe(event))
    except KeyboardInterrupt:
        return  # Ctrl-C ends --follow


def _follow(reader: EventReader) -> Iterator[Event]:
    """Yield events as they are written."""
    while True:
        time.sleep(_POLL_SECONDS)
        yield from reader.read()


def _kinds(asked: list[str] | None) -> set[str]:
    from rechannel.telemetry.events import EVENTS

    known = {event.KIND for event in EVENTS}
    unknown = set(asked or ()) - known
    if unknown:
        msg = f"there is no event of kind {min(unknown)!r}; there are: {', '.join(sorted(known))}"
        raise RefusedError(msg)
    return set(asked) if asked else known
