"""`rechannel status`: the state of a job."""

from __future__ import annotations

import json
import time
from typing import Any

from rechannel.cli.options import JsonOption, StateTarget
from rechannel.cli.remote.client import Client, TokenOption, is_url
from rechannel.cli.screen import count, moment, show, show_json, show_table, size, some, table
from rechannel.errors import RefusedError
from rechannel.profiling.model import words

_WORDS = {
    "new": "has never run",
    "running": "is running",
    "silent": "has not renewed its lease for a while: it may be suspended, or its host may be gone",
    "died": "died: its process is gone; start the job again to continue",
    "stopped": "was stopped",
    "failed": "ended with an error: see `rechannel events`; start the job again to continue",
}


def status(
    directory: StateTarget,
    as_json: JsonOption = False,
    token: TokenOption = None,
) -> None:
    """Show the driver, timestep, operators, sources and unpublished output of a job.

    Of a state directory, all of it comes from the journal; the job may be running. Of a served job (its URL of HTTP),
    the job itself says how it stands, with its lag.
    """
    if is_url(directory):
        _ask(directory, token, as_json=as_json)
        return
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.cli.inspect.driver import Place
    from rechannel.cli.inspect.summary import summary
    from rechannel.engine.journal.lease import process_started
    from rechannel.engine.journal.this_driver import this_holder

    wall_ms = int(time.time() * 1000)
    place = Place(where=this_holder().where, wall_ms=wall_ms, started=process_started)
    facts = summary(open_directory(directory), place)
    if as_json:
        show_json(facts)
    else:
        _show(facts, wall_ms)


def _ask(url: str, token: str | None, *, as_json: bool) -> None:
    """Show the status of a served job."""
    from rechannel.telemetry.words import status_text

    with Client(url, token) as job:
        facts = job.get("status")
    if not {"name", "message", "operators", "lag"} <= facts.keys():
        msg = f"the server at {url} is not a served job: give the address that `job.serve()` has"
        raise RefusedError(msg)
    if as_json:
        show_json(facts)
    else:
        show(status_text(facts, words.size))


def _show(facts: dict[str, Any], wall_ms: int) -> None:
    show(f"Job {facts['name']!r} {_WORDS[facts['condition']]}.")
    overview = table("", "")
    overview.show_header = False
    for what, text in _overview(facts, wall_ms):
        overview.add_row(what, text)
    show_table(overview)
    if facts["operators"]:
        show("")
        show_table(_operators(facts["operators"]))
    if facts["sources"]:
        show("")
        show_table(_sources(facts["sources"]))


def _overview(facts: dict[str, Any], wall_ms: int) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    driver, configuration = facts["driver"], facts["configuration"]
    if driver is not None:
        rows.append(("driver", _driver(driver, facts["epoch"], wall_ms)))
    if facts["timestep"] is None:
        rows.append(("timestep", "none is committed"))
    else:
        at = moment(facts["timestep_ms"])
        rows.append(("timestep", f"{facts['timestep']} is committed ({at})"))
    if facts["open"]:
        rows.append(("under way", some(facts["open"])))
    if facts["kept"]:
        rows.append(("can look back to", some(facts["kept"])))
    if configuration is not None:
        pace = configuration["interval_ms"]
        rows.append(
            (
                "configuration",
                f"version {configuration['version']} since timestep {configuration['since']}:"
                f" {f'a timestep every {pace} ms' if pace else 'as soon as possible'},"
                f" {configuration['in_flight']} in flight",
            )
        )
    waiting = [f"{w['sink']} (timestep {w['timestep']})" for w in facts["unpublished"]]
    rows.append(("unpublished", some(waiting) if waiting else "nothing"))
    for held in facts["quarantine"]:
        text = f"owes its timesteps since {held['timestep']} ({held['reason']}); rechannel repair releases it"
        rows.append((f"sink {held['sink']}", text))
    return rows


def _driver(driver: dict[str, Any], epoch: int, wall_ms: int) -> str:
    text = f"process {driver['pid']} on {driver['host']}, epoch {epoch}"
    if driver["alive"] is not False and driver["sign_ms"] is not None:
        text += f", sign {max(0, wall_ms - driver['sign_ms']) / 1000:.0f} s ago"
    return text


def _operators(operators: dict[str, Any]) -> Any:
    numbers = ("tasks", "bins", "rows", "bytes", "runs")
    rows = table("operator", *numbers, "combines", right=numbers)
    for name, facts in operators.items():
        state = facts["state"] or {}
        rows.add_row(
            name,
            count(facts["tasks"]),
            count(facts["bins"]),
            count(state.get("rows")),
            size(state.get("bytes")),
            count(state.get("runs")),
            {True: "yes", False: "no", None: "-"}[facts["combines"]],
        )
    return rows


def _sources(sources: dict[str, Any]) -> Any:
    rows = table("source", "goes on at", "read up to")
    for name, ends in sources.items():
        rows.add_row(name, _offset(ends["committed"]), _offset(ends.get("intended")))
    return rows


def _offset(offset: Any) -> str:
    return "-" if offset is None else json.dumps(offset, separators=(",", ":"))
