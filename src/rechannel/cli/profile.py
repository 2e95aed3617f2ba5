"""`rechannel profile`: why an application is slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rechannel.cli.screen import count, say, share, show, show_json, show_table, table
from rechannel.errors import TraceError

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import SparkSession
    from rich.table import Table

NS = 1_000_000_000


def profile(  # noqa: PLR0913, PLR0917 - a command line
    path: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="A Spark event log, the state directory of a job, or a trace (.parquet, .csv, .jsonl, .msgpack).",
        ),
    ],
    window: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Length of a window; 'batch' for one window per batch of a stream.",
        ),
    ] = "1",
    query: Annotated[
        str | None, typer.Option(metavar="NAME", help="The stream whose batches are windows.")
    ] = None,
    since: Annotated[
        float, typer.Option(min=0, help="Start of the part to analyse, seconds from the beginning.")
    ] = 0.0,
    until: Annotated[
        float | None,
        typer.Option(min=0, help="End of the part to analyse, seconds from the beginning."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            min=0,
            help="Gaps shorter than this belong to the activities next to them, milliseconds.",
        ),
    ] = 0.0,
    top: Annotated[int, typer.Option(min=1, help="Rows per table.")] = 10,
    page: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page with pictures."),
    ] = None,
    png: Annotated[
        str | None, typer.Option(metavar="DIRECTORY", help="Also write the pictures as PNG files.")
    ] = None,
    spark: Annotated[
        str | None,
        typer.Option(metavar="MASTER", help="Analyse windows in parallel on Spark, 'local[*]'."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on bad lines instead of skipping them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find what is on the critical path of an application, and suggest what to try.

    Works for any Spark application: batch, streaming, SQL; for Rechannel jobs in more detail.
    Shares of the critical path (CP) are computed with SnailTrail's algorithm.
    """
    from rechannel.profiling.api import profile as profiled

    with _session(spark) as held:
        made = profiled(
            path,
            window=window_of(window),
            threshold=timedelta(milliseconds=threshold),
            query=query,
            since=timedelta(seconds=since),
            until=None if until is None else timedelta(seconds=until),
            strict=strict,
            spark=held,
        )
    if not len(made.profile.windows):
        msg = f"{path} contains no activity: nothing begins and ends in it"
        raise TraceError(msg)
    from rechannel.profiling.report.record import SUMMARIES, about, as_record, summaries

    if page is not None:
        from rechannel.profiling.report.page import write_page

        write_page(made, page)
        say(f"wrote {page}")
    if png is not None:
        from rechannel.profiling.report.pictures import write_pictures

        for file in write_pictures(made, png):
            say(f"wrote {file}")
    if as_json:
        show_json(as_record(made, top))
        return
    for note in made.notes:
        say(f"note: {note}")
    show(f"{made.title}: {about(made)}")
    for finding in made.findings:
        show("")
        show(f"{finding.cause}: {finding.text}")
    if made.places:
        show("")
        for place in made.places[:top]:
            show(place.text)
    for title, frame in summaries(made, top).items():
        if len(frame):
            show("")
            show(title)
            show_table(_rows(SUMMARIES[title], frame))


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession | None]:
    """Keep a session as long as it is needed; None if there is no master."""
    if master is None:
        yield None
        return
    from rechannel.engine.spark.session.session import session

    made = session(master, name="rechannel profile")
    try:
        yield made
    finally:
        made.stop()


def window_of(text: str) -> Literal["batch"] | timedelta:
    """Return the length of windows. Raises BadParameter."""
    if text == "batch":
        return "batch"
    try:
        return timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        msg = f"--window must be a number of seconds or 'batch', not {text!r}"
        raise typer.BadParameter(msg) from None


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
