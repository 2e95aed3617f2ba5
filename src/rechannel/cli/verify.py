"""`rechannel verify`: check every file of a state directory."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.options import JsonOption, StateTarget
from rechannel.cli.own_session import own_session
from rechannel.cli.screen import count, err, show, show_json, show_table, size, table

if TYPE_CHECKING:
    from rechannel.cli.inspect.damage import Findings

DAMAGED = 1
"""Exit code if a file is damaged or missing."""


def verify(
    directory: StateTarget,
    spark: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Read segments and sink buffers in tasks of Spark, 'local[*]'."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Read every file of a state directory.

    It names each file that is damaged or missing; exit code 1 if there is one. The job may be running.
    """
    from rechannel.cli.inspect.damage import verify_everything
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.engine.repair.checking import OnSpark, one_by_one

    opened = open_directory(directory)
    with own_session(spark, "rechannel verify") as held, err().status("reading") as status:
        found = verify_everything(
            opened,
            lambda kind, done, all_: status.update(f"reading {kind}: {done} of {all_}"),
            one_by_one if held is None else OnSpark(held),
        )
    if as_json:
        show_json({"name": opened.identity.name, "intact": not found.damages, **asdict(found)})
    else:
        _show(opened.identity.name, found)
    if found.damages:
        raise typer.Exit(DAMAGED)


def _show(name: str, found: Findings) -> None:
    read = table("read", "files", "bytes", right=("files", "bytes"))
    for kind, files in found.files.items():
        read.add_row(kind, count(files), size(found.bytes[kind]))
    show_table(read)
    show("")
    if found.unreferenced:
        show(f"{count(found.unreferenced)} more files are no longer needed.")
    if not found.damages:
        show(f"State of job {name!r} is intact.")
        return
    if not found.complete:
        show("The journal cannot be read, so all segments and sink buffers were read.")
    show(f"State of job {name!r} is damaged:")
    for damage in found.damages:
        named = damage.file in damage.problem
        show(f"  {damage.problem}" if named else f"  {damage.file}: {damage.problem}")
