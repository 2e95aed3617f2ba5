"""`rechannel profile`: why an application is slow."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from rechannel.cli.screen import count, say, share, show, show_json, show_table, table
from rechannel.errors import TraceError

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

NS = 1_000_000_000


def profile(  # noqa: PLR0917 - a command line
    path: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="An event log of Spark, the state directory of a job, or a trace (.parquet, .csv, .jsonl, .msgpack).",
        ),
    ],
    window: Annotated[float, typer.Option(min=0.001, help="Length of a window, seconds.")] = 1.0,
    threshold: Annotated[
        float,
        typer.Option(
            min=0, help="Gaps shorter than this are part of what is beside them, milliseconds."
        ),
    ] = 0.0,
    top: Annotated[int, typer.Option(min=1, help="Rows per table.")] = 10,
    page: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write a page with pictures.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a log with bad lines.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is on the critical path of an application, and what to try.

    Any Spark application: batch, streaming, SQL; jobs of Rechannel in more detail. Shares of the critical path (CP)
    are from SnailTrail's algorithm."""
    from rechannel.profiling.front import profile as profiled

    made = profiled(
        path,
        window=timedelta(seconds=window),
        threshold=timedelta(milliseconds=threshold),
        strict=strict,
    )
    if not len(made.profile.windows):
        msg = f"{path} has no time in it: nothing began and ended there"
        raise TraceError(msg)
    from rechannel.profiling.report import SUMMARIES, about, as_record, summaries

    if page is not None:
        from rechannel.profiling.page import write_page

        write_page(made, page)
        say(f"wrote {page}")
    if as_json:
        show_json(as_record(made, top))
        return
    for note in made.notes:
        say(f"note: {note}")
    show(f"{made.title}: {about(made)}")
    for finding in made.findings:
        show("")
        show(f"{finding.cause}: {finding.text}")
    for title, frame in summaries(made, top).items():
        if len(frame):
            show("")
            show(title)
            show_table(_rows(SUMMARIES[title], frame))


def _rows(names: tuple[str, ...], frame: pl.DataFrame) -> Table:
    figures = ("CP", "of all time", "times", "seconds")
    rows = table(*names, *figures, right=figures)
    for row in frame.iter_rows(named=True):
        rows.add_row(
            *(str(row[name] or "") for name in names),
            share(row["critical"]),
            share(row["profile"]),
            count(row["edges"]),
            f"{row['ns'] / NS:,.2f}",
        )
    return rows
