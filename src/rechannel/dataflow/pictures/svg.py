"""A dataflow as a standalone SVG: sources on top, one colour per kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from rechannel.dataflow.graph.nodes import Dataflow, Node, Sink, Source, Stateful
from rechannel.dataflow.pictures.captions import caption, shorten
from rechannel.dataflow.pictures.layout import Cell, Layout, centres, lay_out

_NAME_WIDTH = 8.0
"""Pixels of a character of a name, somewhat generous: fonts differ."""
_DETAIL_WIDTH = 6.8
_TEXT = 48
_PADDING = 14
_BOX = 48
_CHANNEL = 44
_GAP = 28
_MARGIN = 16

_STYLE = """
svg { background: #ffffff; font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
rect { stroke-width: 1.5 }
.source rect { fill: #e8f2e4; stroke: #4f8a3a }
.stateful rect { fill: #fdeedb; stroke: #c27a1d }
.stateless rect { fill: #eef1f5; stroke: #7a8798 }
.sink rect { fill: #e3ecf8; stroke: #3a6fb0 }
.name { font-size: 13px; font-weight: 600; fill: #1c2733 }
.detail { font-size: 11px; fill: #4a5868 }
text { text-anchor: middle }
path { fill: none; stroke: #7a8798; stroke-width: 1.5 }
marker path { fill: #7a8798; stroke: none }
""".strip()

_ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
    'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)


def draw_svg(dataflow: Dataflow, tasks: Mapping[str, int] | None = None) -> str:
    """A picture of names, kinds, keys and tasks, as the text of an SVG file.

    tasks: current number of tasks by name; without it, what the user asked for.
    """
    layout = lay_out(dataflow)
    captions = {id(node): caption(node, tasks, _TEXT) for node in dataflow.nodes}

    def width(cell: Cell) -> float:
        return 1.0 if cell.bend else _width(cell.node, captions[id(cell.node)])

    middle = centres(layout, width, _GAP)
    cells = [cell for layer in layout.layers for cell in layer]
    total = max((middle[id(c)] + width(c) / 2 for c in cells), default=0.0) + 2 * _MARGIN
    height = max(len(layout.layers) * (_BOX + _CHANNEL) - _CHANNEL, 0) + 2 * _MARGIN
    lines = [_path(a, b, middle, layout, width) for a, b in layout.links]
    boxes = [
        _box(cell, middle[id(cell)] + _MARGIN, width(cell), captions[id(cell.node)])
        for cell in cells
        if not cell.bend
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{height}" '
            f'viewBox="0 0 {total:.0f} {height}" role="img">',
            f"<style>{_STYLE}</style>",
            _ARROW,
            *lines,
            *boxes,
            "</svg>\n",
        ]
    )


def _width(node: Node, detail: str) -> float:
    name = shorten(node.name, _TEXT)
    return max(len(name) * _NAME_WIDTH, len(detail) * _DETAIL_WIDTH) + 2 * _PADDING


def _top(cell: Cell) -> float:
    return _MARGIN + cell.layer * (_BOX + _CHANNEL)


def _box(cell: Cell, x: float, width: float, detail: str) -> str:
    node, y = cell.node, _top(cell)
    return (
        f'<g class="{_class(node)}"><title>{escape(f"{node.name}: {detail}")}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}" rx="6"/>'
        f'<text class="name" x="{x:.1f}" y="{y + 20}">{escape(shorten(node.name, _TEXT))}</text>'
        f'<text class="detail" x="{x:.1f}" y="{y + 37}">{escape(detail)}</text></g>'
    )


def _path(
    upper: Cell,
    lower: Cell,
    middle: Mapping[int, float],
    layout: Layout,
    width: Callable[[Cell], float],
) -> str:
    """A curve from the foot of one cell to the head of another; a bend is passed straight."""
    uppers = sorted(layout.above(lower), key=lambda cell: middle[id(cell)])
    place = next(i for i, cell in enumerate(uppers) if cell is upper) + 1
    x1 = middle[id(upper)] + _MARGIN
    x2 = middle[id(lower)] + _MARGIN + width(lower) * (place / (len(uppers) + 1) - 0.5)
    y1, y2 = _top(upper) + _BOX, _top(lower)
    start = f"M{x1:.1f} {y1 - _BOX} V{y1}" if upper.bend else f"M{x1:.1f} {y1}"
    half = (y2 - y1) / 2
    curve = f"C{x1:.1f} {y1 + half} {x2:.1f} {y2 - half} {x2:.1f} {y2}"
    arrow = "" if lower.bend else ' marker-end="url(#arrow)"'
    return f'<path d="{start} {curve}"{arrow}/>'


def _class(node: Node) -> str:
    if isinstance(node, Source):
        return "source"
    if isinstance(node, Stateful):
        return "stateful"
    return "sink" if isinstance(node, Sink) else "stateless"
