"""`rechannel state`: the rows of an operator's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.options import JsonOption, StateTarget
from rechannel.cli.screen import count, show, show_json, show_rows

if TYPE_CHECKING:
    from rechannel.cli.inspect.rows import StoredRows


def state(
    directory: StateTarget,
    operator: Annotated[str, typer.Argument(help="Name of the operator.")],
    timestep: Annotated[
        int | None, typer.Option(help="Show this timestep, if it is still kept.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Maximum number of rows to show; 0 = all.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show the rows of an operator's state.

    Key columns and state columns are shown as they are stored: aggregates as they are kept (a mean
    as its parts), not as the job finishes them. Neither Spark nor the job's program is needed, and
    the job may run meanwhile.
    """
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.cli.inspect.rows import stored_rows

    found = stored_rows(open_directory(directory), operator, timestep, limit or None)
    if as_json:
        names = found.rows.column_names
        show_json(
            {
                "operator": found.operator,
                "timestep": found.timestep,
                "keys": names[: found.keys],
                "state": names[found.keys :],
                "rows": found.rows.to_pylist(),
                "more": found.more,
            }
        )
    else:
        _show(found)


def _show(found: StoredRows) -> None:
    show(
        f"State of {found.operator!r} as of timestep {found.timestep}: columns as they are stored,"
        f" keys first, in the order of their hashes."
    )
    if found.rows.num_rows == 0:
        show("There are no rows.")
        return
    names = found.rows.column_names
    keys = ", ".join(names[: found.keys])
    show(f"Key: {keys}. State: {', '.join(names[found.keys :])}.")
    show("")
    show_rows(found.rows)
    if found.more:
        show("")
        show(f"These are the first {count(found.rows.num_rows)} rows; --limit shows more.")
