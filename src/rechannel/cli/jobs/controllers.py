"""`rechannel controllers`: the controllers of a running job."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from rechannel.cli.options import JsonOption
from rechannel.cli.remote.client import Client, TokenOption, UrlArgument
from rechannel.cli.screen import count, show, show_json, show_table, table


def controllers(
    url: UrlArgument,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Only this controller, with its log and its state."),
    ] = None,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the controllers of a running job, in the order of their installation, or one of them."""
    with Client(url, token) as job:
        answer = job.get("controllers") if name is None else job.get("controllers", name)
    if as_json:
        show_json(answer)
    elif name is not None:
        _show_one(answer)
    elif answer["controllers"]:
        show_table(_rows(answer["controllers"]))
    else:
        show("There is no controller.")


def condition(body: dict[str, Any]) -> str:
    """What a controller is doing, in a word and its reason."""
    if body["suspended"]:
        return f"suspended: {body['paused']}"
    if body["paused"] is not None:
        return f"paused: {body['paused']}"
    return "active" if body["absent"] is None else "absent"


def _rows(all_: list[dict[str, Any]]) -> Any:
    numbers = ("priority", "operations", "requests", "failures")
    rows = table("name", "class", "condition", *numbers, right=numbers)
    for body in all_:
        rows.add_row(
            body["name"],
            body["path"] or "-",
            condition(body) + (" (dry run)" if body["dry_run"] else ""),
            str(body["priority"]),
            count(body["operations"]),
            count(body["requests"]),
            count(body["failed"]),
        )
    return rows


def _show_one(body: dict[str, Any]) -> None:
    show(f"Controller {body['name']} is {condition(body)}.")
    overview = table("", "")
    overview.show_header = False
    for what, text in (
        ("class", body["path"] or "-"),
        ("parameters", "-" if body["parameters"] is None else json.dumps(body["parameters"])),
        ("absent", body["absent"] or "-"),
        ("priority", str(body["priority"])),
        ("dry run", "yes" if body["dry_run"] else "no"),
        ("operations", f"{count(body['operations'])}, under way: {body['operation'] or '-'}"),
        ("requests", count(body["requests"])),
        ("failures", f"{count(body['failed'])}, {count(body['failures'])} of them in a row"),
        ("state", json.dumps(body["state"], ensure_ascii=False)),
        *(
            (f"  {name}{operator and f' of {operator}'}", f"{value:g}")
            for name, values in body["metrics"].items()
            for operator, value in values.items()
        ),
    ):
        overview.add_row(what, text)
    show_table(overview)
    for line in body["log"]:
        show(line)
