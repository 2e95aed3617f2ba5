"""`rechannel repair`: what is wrong with a state directory, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.options import JsonOption, StateTarget
from rechannel.cli.screen import show, show_json

if TYPE_CHECKING:
    from rechannel.engine.repair.findings import Finding

LEFT = 1
"""Exit code if findings are left."""


def repair(
    directory: StateTarget,
    yes: Annotated[bool, typer.Option("--yes", help="Do everything that is advised.")] = False,
    do: Annotated[
        list[str] | None,
        typer.Option("--do", metavar="ID", help="Do it for this finding. May be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is wrong with a state directory, and repair it on request.

    Without --yes or --do, nothing is changed; with them, no driver may run. Exit code 1 if findings are left.
    """
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.engine.repair import doing
    from rechannel.engine.repair.this_hand import this_hand

    store, hand = open_directory(directory, durable=True).store, this_hand()
    done: tuple[Finding, ...] = ()
    if yes or do:
        chosen = set(do or ())
        if yes:
            chosen |= {f.id for f in doing.found(store, hand) if f.advised and f.action}
        done = doing.repair(store, hand, chosen)
    left = doing.found(store, hand)
    if as_json:
        show_json({"done": [_facts(f) for f in done], "found": [_facts(f) for f in left]})
    else:
        for finding in done:
            show(f"{finding.id}: done ({_words(finding)}).")
        for finding in left:
            _show(finding, directory)
        if not left:
            show("Nothing is wrong." if not done else "Nothing else is wrong.")
    if left:
        raise typer.Exit(LEFT)


def _words(finding: Finding) -> str:
    return "" if finding.action is None else finding.action.words


def _facts(finding: Finding) -> dict[str, object]:
    return {
        "id": finding.id,
        "what": finding.what,
        "consequence": finding.consequence,
        "action": _words(finding) or None,
        "advised": finding.advised and finding.action is not None,
    }


def _show(finding: Finding, directory: str) -> None:
    show(f"{finding.id}: {finding.what}")
    show(f"  if nothing is done: {finding.consequence}")
    if finding.action is not None:
        show(f"  what can be done: {finding.action.words}")
        note = "" if finding.advised else "  (for you to decide: --yes leaves it)"
        show(f"  rechannel repair {directory} --do {finding.id}{note}")
