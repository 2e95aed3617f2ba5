"""`rechannel history`: the reconfigurations of a job, and what else was done to its state directory."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, is_url
from rechannel.cli.screen import count, moment, show, show_json, show_table, size, table
from rechannel.errors import NotReadyError


def history(
    where: Annotated[
        str,
        typer.Argument(
            metavar="URL|STATE_DIR", help="URL of a served job, or the state directory of any job."
        ),
    ],
    id_: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="Only this reconfiguration, with all its figures."),
    ] = None,
    last: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=10_000, help="The newest ones of either kind."),
    ] = 100,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what was done to a job, oldest first: its reconfigurations, upgrades, savepoints, resets and edits.

    With ID, show one reconfiguration with all its figures.
    """
    all_, acts = (
        _from_server(where, token, id_, last)
        if is_url(where)
        else _from_directory(where, id_, last)
    )
    if as_json:
        show_json({"reconfigurations": all_, "acts": acts} if id_ is None else all_[0])
    elif id_ is not None:
        _show_one(all_[0])
    else:
        _show_all(all_, acts)


def _show_all(all_: list[dict[str, Any]], acts: list[dict[str, Any]]) -> None:
    if all_:
        show_table(_rows(all_))
    else:
        show("There was no reconfiguration.")
    if acts:
        show("")
        rows = table("act", "time", "timestep", "what", "cause", right=("timestep",))
        for one in acts:
            timestep = "-" if one["timestep"] is None else str(one["timestep"])
            rows.add_row(one["kind"], moment(one["time_ms"]), timestep, one["what"], one["cause"])
        show_table(rows)


Found: TypeAlias = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Reconfigurations, and other acts; none of the latter if one reconfiguration is asked for."""


def _from_server(url: str, token: str | None, id_: str | None, last: int) -> Found:
    with Client(url, token) as job:
        if id_ is not None:
            return [job.get("reconfigurations", id_)], []
        found = job.get("reconfigurations", last=last)["reconfigurations"]
        return found, job.get("acts")["acts"][-last:]


def _from_directory(directory: str, id_: str | None, last: int) -> Found:
    """Read a state directory. The job may be running."""
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.engine.journal.acts import acts_of
    from rechannel.engine.journal.reading import read_only
    from rechannel.engine.reconfigure.history import read_history, read_one

    store = open_directory(directory).store
    state = read_only(store)
    known = state.coordination.records
    if id_ is None:
        acts = [dict(one) for one in acts_of(state.notes)]
        return read_history(store, known, last), acts[-last:]
    try:
        return [read_one(store, id_, known)], []
    except NotReadyError as error:
        msg = f"{error} in {directory}"
        raise NotReadyError(msg) from None


def _rows(all_: list[dict[str, Any]]) -> Any:
    numbers = ("bins", "bytes", "timesteps")
    rows = table("id", "change", "phase", *numbers, "cause", "reason", right=numbers)
    for body in all_:
        rows.add_row(
            body["id"],
            body["change"],
            body["phase"],
            count(body["bins"]),
            size(body["bytes"]),
            _timesteps(body),
            body["cause"],
            body["reason"],
        )
    return rows


def _timesteps(body: dict[str, Any]) -> str:
    first, last = body["first_timestep"], body["last_timestep"]
    if first is None:
        return "-"
    return str(first) if first == last else f"{first} to {last}"


def _show_one(body: dict[str, Any]) -> None:
    from rechannel.reconfigure.record import Phase

    show(f"Reconfiguration {body['id']} is {body['phase']}.")
    overview = table("", "")
    overview.show_header = False
    steps = body["steps"]
    for what, text in (
        ("change", body["change"]),
        ("strategy", body["strategy"]),
        ("cause", body["cause"]),
        ("reason", body["reason"] or "-"),
        ("steps", f"{steps['made']} made, {steps['left']} left"),
        ("moved", f"{count(body['bins'])} bins, {size(body['bytes'])}"),
        ("timesteps", _timesteps(body)),
        *(
            (f"  {phase}", moment(body["times"][phase]))
            for phase in Phase
            if phase in body["times"]
        ),
        *((f"  time to {phase}", _ms(ms)) for phase, ms in body["phases_ms"].items()),
    ):
        overview.add_row(what, text)
    show_table(overview)
    if body["latency_ms"]:
        show("")
        show_table(_latencies(body["latency_ms"]))


def _latencies(latencies: dict[str, dict[str, float]]) -> Any:
    numbers = ("timesteps", "p50", "p99", "max")
    rows = table("latency", *numbers, right=numbers)
    for when, figures in latencies.items():
        times = [_ms(figures[name]) for name in numbers[1:]]
        rows.add_row(when, count(figures["timesteps"]), *times)
    return rows


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:,.1f} ms"
