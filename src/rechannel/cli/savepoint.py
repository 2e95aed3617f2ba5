"""`rechannel savepoint` and `rechannel savepoints`: names for committed timesteps, whose state stays."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.jobs.reconfigure import CAUSE, CauseOption
from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, is_url
from rechannel.cli.screen import count, moment, show, show_json, show_table, size, table

WhereArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="STATE_DIR|URL", help="State directory that no driver uses, or URL of a served job."
    ),
]


def savepoint(
    where: WhereArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the savepoint.")],
    drop: Annotated[bool, typer.Option("--drop", help="Drop it instead.")] = False,
    cause: CauseOption = CAUSE,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name the latest committed timestep of a job. Its files stay for as long as it has the name.

    If a driver runs, give its URL.
    """
    facts = (
        _at_server(where, token, name, cause, drop=drop)
        if is_url(where)
        else _in_directory(where, name, cause, drop=drop)
    )
    if as_json:
        show_json(facts)
    elif drop:
        show(f"Savepoint {name!r} of timestep {facts['timestep']} is dropped.")
    else:
        kept = f"{count(facts['files'])} segments, {size(facts['bytes'])}"
        show(f"Savepoint {name!r} keeps timestep {facts['timestep']}: {kept}.")


def savepoints(
    where: Annotated[
        str,
        typer.Argument(
            metavar="STATE_DIR|URL", help="State directory of any job, or URL of a served one."
        ),
    ],
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the savepoints of a job, oldest first. The job may be running."""
    if is_url(where):
        with Client(where, token) as job:
            found: list[dict[str, Any]] = job.get("savepoints")["savepoints"]
    else:
        from rechannel.cli.inspect.directory import open_directory
        from rechannel.engine.journal.reading import read_only
        from rechannel.engine.journal.savepoints import savepoints_of

        state = read_only(open_directory(where).store)
        found = [one.to_dict() for one in savepoints_of(state).values()]
    if as_json:
        show_json({"savepoints": found})
    elif found:
        show_table(_rows(found))
    else:
        show("There are no savepoints.")


def _at_server(url: str, token: str | None, name: str, cause: str, *, drop: bool) -> dict[str, Any]:
    with Client(url, token) as job:
        if drop:
            return job.post("savepoints", name, "drop", body={"cause": cause})
        return job.post("savepoints", body={"name": name, "cause": cause})


def _in_directory(directory: str, name: str, cause: str, *, drop: bool) -> dict[str, Any]:
    """Write to a state directory. Raises StateInUseError while a driver runs."""
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.engine.journal.savepoints import dropping, making, savepoints_of
    from rechannel.engine.repair.alone import write_alone
    from rechannel.engine.repair.this_hand import this_hand

    store, hand = open_directory(directory, durable=True).store, this_hand()
    asked = dropping if drop else making
    before: dict[str, Any] = {}

    def bodies(state: Any) -> Any:
        before.update(savepoints_of(state))
        return [asked(state, name, hand.clock(), cause)]

    after = write_alone(store, hand, bodies)
    facts: dict[str, Any] = (before if drop else savepoints_of(after))[name].to_dict()
    return facts


def _rows(found: list[dict[str, Any]]) -> Any:
    numbers = ("timestep", "program", "segments", "bytes")
    rows = table("name", *numbers, "made", "cause", right=numbers)
    for one in found:
        rows.add_row(
            one["name"],
            str(one["timestep"]),
            str(one["program"]),
            count(one["files"]),
            size(one["bytes"]),
            moment(one["time_ms"]),
            one["cause"],
        )
    return rows
