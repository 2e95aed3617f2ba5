"""`rechannel sql`: a query over the state of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.options import JsonOption, StateTarget
from rechannel.cli.screen import count, show, show_json, show_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from rechannel.engine.journal.state import JournalState


def sql(
    directory: StateTarget,
    query: Annotated[str, typer.Argument(help="Such as 'SELECT * FROM counts'.")],
    timestep: Annotated[
        int | None, typer.Option(help="Show this timestep, if it is still kept.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=0, help="Maximum number of rows to show; 0 = all.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Answer a SQL query over state, in which every operator is a table.

    Tables have key columns, built-in aggregates under their names, and other state columns as
    `rechannel state` shows them. They are all of one timestep. The SQL is that of polars; names
    with other signs than letters, digits and '_' stand in backticks. Neither Spark nor the job's
    program is needed, and the job may run meanwhile.
    """
    from rechannel.cli.inspect.directory import open_directory
    from rechannel.cli.inspect.rows import operators_of, settled, stored_tables
    from rechannel.engine.view.sql import answer, named

    opened = open_directory(directory)

    def asked(state: JournalState) -> tuple[int | None, pa.Table]:
        operators = list(operators_of(opened, state))
        tables = stored_tables(opened, named(query, operators), state, timestep)
        found = answer(query, tables, operators)
        return (state.last_committed if timestep is None else timestep), found

    of, found = settled(opened, asked)
    rows = found.slice(0, limit or None)
    more = rows.num_rows < found.num_rows
    if as_json:
        show_json({"timestep": of, "rows": rows.to_pylist(), "more": more})
        return
    show(f"As of timestep {of}.")
    if rows.num_rows == 0:
        show("There are no rows.")
        return
    show("")
    show_rows(rows)
    if more:
        show("")
        show(f"These are the first {count(rows.num_rows)} rows; --limit shows more.")
