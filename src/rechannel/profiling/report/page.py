"""A profile as one HTML file that fetches nothing, so it can be sent as an attachment.

Findings and tables are text. Everything that is drawn comes from `page_data`, which the page carries compressed and in
base64: no name in it can end the script that it lies in. What draws is in `assets/`, file by file in the order of
`SCRIPTS`; together they are one function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import polars as pl

from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.model.finding import Evidence, Finding, gained
from rechannel.profiling.model.trace import NS
from rechannel.profiling.model.words import counted, seconds, size
from rechannel.profiling.report.page_data import PAGE, PageLimits, page_data
from rechannel.profiling.report.record import SUMMARIES, about, summaries
from rechannel.profiling.report.shell import asset, closing, opening
from rechannel.profiling.threads import in_threads

SCRIPTS = (
    *("data", "words", "view", "tree", "theme", "tooltip"),
    *("cover", "paint", "lanes", "labels", "hover", "pointer", "keys", "timeline"),
    *("legend", "windows", "graph", "channels", "findings", "main"),
)
"""Names of the files that are the program of the page, in order."""
FIGURES = ("CP", "of all time", "times", "seconds")


def write_page(made: Analysis, path: str | Path, *, top: int = 20) -> None:
    """Write the page. top: rows per table."""
    Path(path).write_text(page_html(made, top=top), encoding="utf-8")


def page_html(made: Analysis, *, top: int = 20, limits: PageLimits = PAGE) -> str:
    """Return the page as text. limits: upper bounds of what it holds."""
    return "\n".join(_lines(made, top, limits))


def _lines(made: Analysis, top: int, limits: PageLimits) -> Iterator[str]:
    data = page_data(made, limits, in_threads)
    yield from opening(made.title)
    yield f'<main><p class="about">{escape(about(made))}</p>'
    yield from _findings(made, limits.findings)
    for place in made.places:
        yield f"<p>{escape(place.text)}</p>"
    yield asset("sections.html")
    yield '<section id="tables" aria-label="Tables">'
    for name, frame in summaries(made, top).items():
        if len(frame):
            yield f"<h2>{escape(name.capitalize())}</h2>"
            yield from _table(SUMMARIES[name], frame)
    yield "</section>"
    yield from _notes([*made.notes, *data["left_out"]])
    yield from closing(data, script())


def script() -> str:
    """Return the program of the page."""
    parts = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'


def _findings(made: Analysis, most: int) -> Iterator[str]:
    if not made.findings:
        yield "<p>Nothing stands out.</p>"
        return
    first = max(1, sum(finding.weighty for finding in made.findings))
    yield '<section aria-labelledby="findings-title"><h2 id="findings-title">Findings</h2><ol class="findings">'
    for number, finding in enumerate(made.findings[:most]):
        if number == first:
            rest = counted(min(most, len(made.findings)) - first, "more finding")
            yield f'</ol><details class="others"><summary>{rest} of less weight</summary><ol class="findings">'
        yield from _finding(number, finding)
    yield f"</ol>{'</details>' if len(made.findings[:most]) > first else ''}</section>"


def _finding(number: int, finding: Finding) -> Iterator[str]:
    weight = " weighty" if finding.weighty else ""
    yield f'<li class="finding{weight}"><h3>{escape(_name(finding.cause))}</h3>'
    yield f"<p>{_prose(finding.text)}</p>"
    if finding.advice:
        yield f'<p class="advice">{_prose(finding.advice)}</p>'
    yield f'<ul class="facts"><li>{_gain(finding)}</li><li>{finding.certainty}</li>'
    for each in finding.evidence:
        yield f"<li>{escape(each.name)}: {_figure(each)}</li>"
    yield "</ul>"
    shown = escape(f"Show on the timeline: {finding.cause}")
    yield (
        f'<button type="button" data-finding="{number}" aria-label="{shown}" hidden>'
        "Show on the timeline</button></li>"
    )


def _prose(text: str) -> str:
    """Return a text with the names of settings, which stand in backquotes, as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _name(cause: str) -> str:
    return cause.replace("-", " ").capitalize()


def _gain(finding: Finding) -> str:
    gain = gained(finding)
    return f"gain: {gain}" if gain else "gain not computed"


def _figure(each: Evidence) -> str:
    if each.unit == "%":
        return f"{each.value:,.3g} %"
    if each.unit == "B":
        return size(each.value)
    if each.unit == "s":
        return seconds(each.value)
    value = f"{each.value:,.0f}" if each.value == round(each.value) else f"{each.value:,.3g}"
    return escape(f"{value} {each.unit}".rstrip())


def _table(names: tuple[str, ...], frame: pl.DataFrame) -> Iterator[str]:
    heads = [f'<th scope="col">{escape(name)}</th>' for name in names]
    heads += [f'<th scope="col" class="figure">{name}</th>' for name in FIGURES]
    yield f'<div class="table"><table><thead><tr>{"".join(heads)}</tr></thead><tbody>'
    for row in frame.iter_rows(named=True):
        cells = [f"<td>{escape(str(row[name] or ''))}</td>" for name in names]
        figures = (
            f"{row['critical']:.1%}",
            f"{row['profile']:.1%}",
            f"{row['edges']:,}",
            f"{row['ns'] / NS:,.2f}",
        )
        cells += [f'<td class="figure">{figure}</td>' for figure in figures]
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _notes(notes: list[str]) -> Iterator[str]:
    if notes:
        yield '<section aria-labelledby="notes-title"><h2 id="notes-title">Notes</h2><ul class="notes">'
        yield from (f"<li>{escape(note[:1].upper() + note[1:])}.</li>" for note in notes)
        yield "</ul></section>"
