"""A profile as one HTML file. Its pictures are embedded and nothing is fetched, so it can be sent
as an attachment.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from html import escape
from pathlib import Path

import polars as pl

from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.model.trace import NS
from rechannel.profiling.report.pictures import pictures
from rechannel.profiling.report.record import SUMMARIES, about, summaries

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { margin-top: 2.2rem } img { max-width: 100% } p.cause { border-left: 4px solid #c22; padding-left: .8rem }
table { border-collapse: collapse } td, th { padding: .15rem 1rem .15rem 0; text-align: left; vertical-align: top }
td.figure, th.figure { text-align: right; font-variant-numeric: tabular-nums } small { color: #666 }
"""


def write_page(made: Analysis, path: str | Path, *, top: int = 20) -> None:
    """Write the page."""
    Path(path).write_text("\n".join(_lines(made, top)), encoding="utf-8")


def _lines(made: Analysis, top: int) -> Iterator[str]:
    title = escape(made.title)
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield f"<style>{STYLE}</style></head><body><h1>{title}</h1><p>{escape(about(made))}</p>"
    for note in made.notes:
        yield f"<p><small>{escape(note)}</small></p>"
    for finding in made.findings:
        told = f"{finding.text} {finding.advice}"
        yield f'<p class="cause"><b>{escape(finding.cause)}</b>: {escape(told)}</p>'
    for place in made.places:
        yield f'<p class="cause">{escape(place.text)}</p>'
    for name, seen, png in pictures(made):
        data = b64encode(png).decode("ascii")
        yield f"<h2>{escape(name)}</h2><p>{escape(seen)}</p>"
        yield f'<img alt="{escape(name)}" src="data:image/png;base64,{data}">'
    for name, frame in summaries(made, top).items():
        if len(frame):
            yield f"<h2>{escape(name.capitalize())}</h2>"
            yield from _table(SUMMARIES[name], frame)
    yield "</body></html>"


def _table(names: tuple[str, ...], frame: pl.DataFrame) -> Iterator[str]:
    heads = [f"<th>{escape(name)}</th>" for name in names]
    heads += [
        f'<th class="figure">{name}</th>' for name in ("CP", "of all time", "times", "seconds")
    ]
    yield f"<table><tr>{''.join(heads)}</tr>"
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
    yield "</table>"
