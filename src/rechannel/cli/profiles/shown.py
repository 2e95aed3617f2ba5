"""A profile, or the comparison of two, on the terminal: first what was found, then notes, then tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rechannel.cli.screen import (
    count,
    in_line,
    say,
    share,
    show,
    show_json,
    show_prose,
    show_table,
    table,
)
from rechannel.errors import RefusedError
from rechannel.profiling.model.comparison import UNEXPLAINED
from rechannel.profiling.model.finding import WEIGHT, gained
from rechannel.profiling.model.trace import NS
from rechannel.profiling.model.words import percent
from rechannel.profiling.report.record import SUMMARIES, about, as_record, summaries

NOTHING = (
    f"Nothing stands out: no change is known that would make the run {percent(WEIGHT)} shorter."
)
INDENT = 3

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from rechannel.profiling.model.analysis import Analysis
    from rechannel.profiling.model.comparison import Comparison
    from rechannel.profiling.model.finding import Finding


def write_files(made: Analysis, page: str | None, png: str | None) -> None:
    """Write the page and the pictures that are asked for. Raises RefusedError."""
    if page is not None:
        from rechannel.profiling.report.page import write_page

        with _writing(page):
            write_page(made, page)
        say(f"wrote {page}")
    if png is not None:
        from rechannel.profiling.report.pictures import write_pictures

        with _writing(png):
            written = write_pictures(made, png)
        for file in written:
            say(f"wrote {file}")


@contextmanager
def _writing(place: str) -> Iterator[None]:
    """Raise RefusedError, in one line, if a file cannot be written."""
    try:
        yield
    except OSError as error:
        msg = f"{place} cannot be written: {error.strerror or error}"
        raise RefusedError(msg) from error


def show_analysis(made: Analysis, top: int, *, as_json: bool) -> None:
    """Show a profile. top: rows per table."""
    if as_json:
        show_json(as_record(made, top))
        return
    show_prose(f"{made.title}: {about(made)}")
    if not any(finding.weighty for finding in made.findings):
        show("")
        show_prose(NOTHING)
    for number, finding in enumerate(made.findings, 1):
        show("")
        show_prose(f"{number}. {_headline(finding)}")
        show_prose(finding.text, indent=INDENT)
        show_prose(finding.advice, indent=INDENT)
    if made.places:
        show("")
        for place in made.places[:top]:
            show_prose(place.text)
    _show_notes(made.notes)
    for title, frame in summaries(made, top).items():
        if len(frame):
            show("")
            show(title)
            show_table(_summary(SUMMARIES[title], frame))


def show_comparison(made: Comparison, logs: tuple[str, str], top: int, *, as_json: bool) -> None:
    """Show what changed from one run to the next. logs: where they were read from. top: rows per table."""
    if as_json:
        record = made.to_dict()
        for title in ("operators", "activities"):
            record[title] = record[title][:top]
        show_json({"logs": list(logs), **record})
        return
    for letter, title, log in zip("AB", made.titles, logs, strict=True):
        show_prose(f"{letter}: {title} ({log})")
    show("")
    show_prose(made.text)
    _show_notes(made.notes)
    for what, frame in (("operator", made.by_operator), ("activity", made.by_activity)):
        show("")
        show("seconds of the run by " + what)
        show_table(_parts(what, frame.head(top)))


def _headline(finding: Finding) -> str:
    """Return the cause with what it costs and how sure that is."""
    gain = gained(finding)
    return f"{finding.cause}{': ' if gain else ''}{gain} ({finding.certainty})"


def _show_notes(notes: Sequence[str]) -> None:
    if notes:
        show("")
    for note in notes:
        show_prose(f"note: {note}")


def _summary(names: tuple[str, ...], frame: pl.DataFrame) -> Table:
    figures = ("CP", "of all time", "times", "seconds")
    rows = table(*names, *figures, right=figures)
    for row in frame.iter_rows(named=True):
        rows.add_row(
            *(in_line(str(row[name] or "")) for name in names),
            share(row["critical"]),
            share(row["profile"]),
            count(row["edges"]),
            f"{row['ns'] / NS:,.2f}",
        )
    return rows


def _parts(what: str, frame: pl.DataFrame) -> Table:
    """Make a table of the parts of two runs; seconds."""
    figures = ("A", "B", "change", "work A", "work B")
    rows = table(what, *figures, right=figures)
    for row in frame.iter_rows(named=True):
        own = row["name"] != UNEXPLAINED
        rows.add_row(
            in_line(row["in_a"] if row["name"] is None else row["name"]),
            *("-" if name is None else f"{row[at]:,.2f}" for name, at in _ends(row)),
            f"{row['difference']:+,.2f}",
            *(f"{row[at]:,.2f}" if own else "-" for at in ("work_a", "work_b")),
        )
    return rows


def _ends(row: dict[str, str | None]) -> tuple[tuple[str | None, str], tuple[str | None, str]]:
    return (row["in_a"], "seconds_a"), (row["name"], "seconds_b")
