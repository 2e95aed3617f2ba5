"""Advice as one HTML file that fetches nothing, so it can be sent as an attachment.

Words, tables and pictures are all there without a script, which only lets the reader choose the colours. The page
carries its advice as JSON, compressed and in base64, as the page of a profile carries its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from html import escape
from pathlib import Path

from rechannel.profiling.report.shell import asset, closing, opening
from rechannel.scaling.report.drawing import bar, drawn
from rechannel.scaling.report.parts import Bar, Card, Cell, Chart, Page, Part, Section, Table


def write_page(page: Page, path: str | Path) -> None:
    """Write the page."""
    Path(path).write_text(page_html(page), encoding="utf-8")


def page_html(page: Page) -> str:
    """Return the page as text."""
    return "\n".join(_lines(page))


def script() -> str:
    """Return the program of the page."""
    parts = asset("theme.js") + asset("main.js", __package__)
    return f'(() => {{\n"use strict";\n{parts}}})();'


def _lines(page: Page) -> Iterator[str]:
    yield from opening(page.title, asset("charts.css", __package__))
    yield f'<main><p class="about">{escape(page.about)}</p>'
    for section in page.sections:
        yield from _section(section)
    if page.notes:
        yield '<section aria-labelledby="notes-title"><h2 id="notes-title">Notes</h2><ul class="notes">'
        yield from (f"<li>{escape(note[:1].upper() + note[1:])}.</li>" for note in page.notes)
        yield "</ul></section>"
    yield from closing(page.record, script())


def _section(section: Section) -> Iterator[str]:
    """Yield a section: what follows in words, then pictures, then tables."""
    name = f"{section.id}-title"
    yield f'<section id="{section.id}" aria-labelledby="{name}"><h2 id="{name}">{escape(section.title)}</h2>'
    if section.hint:
        yield f'<p class="hint">{escape(section.hint)}</p>'
    charts = [part for part in section.parts if isinstance(part, Chart)]
    yield from (_shown(part) for part in section.parts if isinstance(part, Card))
    if charts:
        yield '<div class="charts">'
        yield from map(_shown, charts)
        yield "</div>"
    yield from (_shown(part) for part in section.parts if isinstance(part, Table))
    yield "</section>"


@singledispatch
def _shown(part: Part) -> str:
    raise TypeError(part)


@_shown.register
def _(part: Chart) -> str:
    return drawn(part)


@_shown.register
def _(part: Card) -> str:
    weight = " weighty" if part.weighty else ""
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in part.facts)
    return (
        f'<div class="finding{weight}"><h3>{escape(part.title)}</h3><p>{escape(part.text)}</p>'
        f'<ul class="facts">{facts}</ul></div>'
    )


@_shown.register
def _(part: Table) -> str:
    left = [head in part.texts for head in part.heads]
    heads = "".join(
        f'<th scope="col"{_figure(words)}>{escape(head)}</th>'
        for head, words in zip(part.heads, left, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(_cell(cell, words) for cell, words in zip(row, left, strict=True))}</tr>"
        for row in part.rows
    )
    return f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(cell: Cell, words: bool) -> str:
    if isinstance(cell, Bar):
        return f"<td>{bar(cell)}</td>"
    return f"<td{_figure(words)}>{escape(cell)}</td>"


def _figure(words: bool) -> str:
    return "" if words else ' class="figure"'
