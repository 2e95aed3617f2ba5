"""A profile in a notebook: the page, with less in it, in a frame that reaches neither the notebook nor the network."""

from __future__ import annotations

from html import escape

from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.report.page import page_html
from rechannel.profiling.report.page_data import NOTEBOOK

HEIGHT = 720
"""Of the frame, pixels."""
ROWS = 10
"""Per table."""


def notebook_html(made: Analysis) -> str:
    """Return a frame with the page."""
    page = escape(page_html(made, top=ROWS, limits=NOTEBOOK))
    return (
        f'<iframe title="{escape(made.title)}" sandbox="allow-scripts" srcdoc="{page}"'
        f' style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
    )
