"""The meta topology as a standalone SVG: sources on top, one colour per kind of vertex, arcs where state goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rechannel.dataflow.pictures.captions import shorten
from rechannel.reconfigure.topology.boxes import (
    BOTH,
    HEIGHT,
    OLD,
    WIDTH,
    Box,
    Group,
    Plane,
    placed,
)
from rechannel.reconfigure.topology.values import OperatorTopology, StateEdge
from rechannel.reconfigure.topology.words import total

MOST_LABELS = 6
"""Arcs of an operator with bins and bytes written to them; others have them as a tooltip."""

LABEL_LINES = 2
"""Lines that labels of arcs take turns in, so that neighbours do not cover each other."""

_TEXT = 60

_STYLE = """
svg { background: #ffffff; font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif }
rect { stroke-width: 1.5; fill: #eef1f5; stroke: #7a8798 }
.kept rect { fill: #fdeedb; stroke: #c27a1d }
.replaced rect { fill: #f7e3ee; stroke: #a8457f }
.new rect { fill: #e8f2e4; stroke: #4f8a3a }
.gone rect { fill: #ffffff; stroke: #7a8798 }
.old rect { stroke-dasharray: 5 3 }
.title { font-size: 13px; font-weight: 600; fill: #1c2733; text-anchor: start }
.name { font-size: 12px; font-weight: 600; fill: #1c2733; text-anchor: middle }
.detail { font-size: 10px; fill: #4a5868; text-anchor: middle }
.bytes { font-size: 10px; fill: #a35f0b; text-anchor: middle; stroke: #ffffff; stroke-width: 3; paint-order: stroke }
path { fill: none; stroke: #c3cad3; stroke-width: 1 }
path.old { stroke-dasharray: 5 3 }
path.state { stroke: #c27a1d; stroke-width: 2 }
marker path { fill: #c27a1d; stroke: none }
""".strip()

_ARROW = (
    '<defs><marker id="state" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="5" '
    'markerHeight="5" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)


def draw_svg(operators: Sequence[OperatorTopology]) -> str:
    """A picture of the tasks before and after a change, their channels, and the state that goes between them.

    Dashed: what is there before the change only.
    """
    plane = placed(operators)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{plane.width:.0f}" height="{plane.height:.0f}" '
            f'viewBox="0 0 {plane.width:.0f} {plane.height:.0f}" role="img">',
            f"<style>{_STYLE}</style>",
            _ARROW,
            *_channels(plane),
            *(line for group in plane.groups for line in _group(group)),
            "</svg>\n",
        ]
    )


def _channels(plane: Plane) -> Iterator[str]:
    groups = {group.topology.operator: group for group in plane.groups}
    for group in plane.groups:
        topology = group.topology
        before = topology.upstream_before or topology.upstream
        for name in dict.fromkeys((*topology.upstream, *before)):
            if name in groups:
                sides = [
                    side
                    for side, names in (("new", topology.upstream), ("old", before))
                    if name in names
                ]
                for one in groups[name].boxes:
                    for other in group.boxes:
                        yield from _channel(one, other, sides)


def _channel(upper: Box, lower: Box, sides: list[str]) -> Iterator[str]:
    """A line from the foot of one box to the head of another, if both are there at the same time."""
    there = [side for side in sides if upper.side in (side, BOTH) and lower.side in (side, BOTH)]
    if there:
        y = upper.y + HEIGHT
        half = (lower.y - y) / 2
        dashed = ' class="old"' if there == [OLD] else ""
        yield (
            f'<path{dashed} d="M{upper.middle:.1f} {y:.1f} C{upper.middle:.1f} {y + half:.1f} '
            f'{lower.middle:.1f} {lower.y - half:.1f} {lower.middle:.1f} {lower.y:.1f}"/>'
        )


def _group(group: Group) -> Iterator[str]:
    first = group.boxes[0]
    title = escape(shorten(group.topology.operator, _TEXT))
    yield f'<text class="title" x="{first.x:.1f}" y="{first.y - 8:.1f}">{title}</text>'
    transfers = group.transfers()
    for number, ((one, other), edges) in enumerate(transfers.items()):
        line = number % LABEL_LINES if len(transfers) <= MOST_LABELS else None
        yield _arc(group.boxes[one], group.boxes[other], edges, line)
    for box in group.boxes:
        yield _box(box)


def _box(box: Box) -> str:
    kind = f"{box.kind}, {box.side}" if box.kind == "replaced" else box.kind
    kinds = f"{box.kind} old" if box.side == OLD else box.kind
    names = "task" if len(box.tasks) == 1 else "tasks"
    return (
        f'<g class="{kinds}"><title>{escape(box.operator)}: {names} {box.label} ({kind})</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'<text class="name" x="{box.middle:.1f}" y="{box.y + 19:.1f}">{box.label}</text>'
        f'<text class="detail" x="{box.middle:.1f}" y="{box.y + 34:.1f}">{kind}</text></g>'
    )


def _arc(source: Box, target: Box, edges: list[StateEdge], line: int | None) -> str:
    """An arc below the boxes, the deeper the further apart they are.

    line: of the bins and bytes that are written below it; None = only as a tooltip.
    """
    words = total(edges)
    foot = source.y + HEIGHT
    depth = 22 + min(abs(target.x - source.x) / 12, 44)
    start, end = source.middle + 14, target.middle - 14
    if target.x < source.x:
        start, end = source.middle - 14, target.middle + 14
    text = ""
    if line is not None:
        middle, low = (start + end) / 2, foot + 48 + 13 * line
        text = f'<text class="bytes" x="{middle:.1f}" y="{low:.1f}">{words}</text>'
    return (
        f"<g><title>{escape(_ways(source, target))}: {words}</title>"
        f'<path class="state" marker-end="url(#state)" d="M{start:.1f} {foot:.1f} C{start:.1f} {foot + depth:.1f} '
        f'{end:.1f} {foot + depth:.1f} {end:.1f} {foot + 1:.1f}"/>'
        f"{text}</g>"
    )


def _ways(source: Box, target: Box) -> str:
    return f"{source.operator} {source.label} -> {target.label}"
