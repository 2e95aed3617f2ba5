"""HTML for notebooks: values as tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

MOST_ROWS = 100
"""Rows of one table; longer ones end with a count of the rest."""


def table(title: str, rows: Mapping[str, object] | Iterable[tuple[str, object]]) -> str:
    """Return a table with one row per name and value; nested mappings are tables in it."""
    pairs = list(rows.items()) if isinstance(rows, Mapping) else list(rows)
    body = "".join(_row(name, value) for name, value in pairs[:MOST_ROWS])
    if len(pairs) > MOST_ROWS:
        body += _row("", f"{len(pairs) - MOST_ROWS} more")
    caption = f"<caption><b>{escape(title)}</b></caption>" if title else ""
    return f"<table>{caption}<tbody>{body}</tbody></table>"


def bars(title: str, values: Sequence[float], *, width: int = 480, height: int = 48) -> str:
    """Return a picture with a bar per value, the highest as high as the picture (in pixels)."""
    most, step = max(values, default=0) or 1, width / max(len(values), 1)
    drawn = "".join(
        f'<rect x="{number * step:.1f}" y="{height - each / most * height:.1f}"'
        f' width="{max(step - 1, 0.5):.1f}" height="{each / most * height:.1f}"/>'
        for number, each in enumerate(values)
    )
    return (
        f'<figure style="margin:0"><svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}"'
        f' height="{height}" fill="currentColor" opacity="0.6"><title>{escape(title)}</title>{drawn}</svg>'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def _row(name: str, value: object) -> str:
    style = ' style="text-align:left;vertical-align:top"'
    return f"<tr><th{style}>{escape(name)}</th><td{style}>{_cell(value)}</td></tr>"


def _cell(value: object) -> str:
    if isinstance(value, Mapping):
        return table("", {str(name): each for name, each in value.items()}) if value else ""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "<br>".join(_cell(each) for each in value[:MOST_ROWS])
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else escape(str(value))
