"""Where the boxes of a picture go: a layered layout, for text and for SVG alike.

Layers are distances from the sources. An edge that passes a layer gets a place in it (a bend), so
lines do not run through boxes. Order within a layer follows the mean place of neighbours, swept
down and up, and the order with the fewest crossings is kept; positions then are the closest to the
neighbours' that leave every box its room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rechannel.dataflow.graph.nodes import Dataflow, Node

_SWEEPS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A place in a layer: a node, or a bend in the lines that leave a node further up."""

    node: Node
    bend: bool
    layer: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Layers from top to bottom, cells from left to right, and lines between neighbouring layers.

    links: (upper cell, lower cell); a lower node's links are in the order of its upstreams.
    """

    layers: tuple[tuple[Cell, ...], ...]
    links: tuple[tuple[Cell, Cell], ...]

    def above(self, cell: Cell) -> list[Cell]:
        """Cells that a cell receives lines from."""
        return [upper for upper, lower in self.links if lower is cell]

    def below(self, cell: Cell) -> list[Cell]:
        """Cells that a cell sends lines to."""
        return [lower for upper, lower in self.links if upper is cell]


def lay_out(dataflow: Dataflow) -> Layout:
    """Layers, order and bends of a dataflow."""
    depth = _depths(dataflow)
    height = max(depth.values(), default=-1) + 1
    layers: list[list[Cell]] = [[] for _ in range(height)]
    cells: dict[tuple[int, int], Cell] = {}
    for node in dataflow.nodes:
        last = max([depth[id(user)] - 1 for user in dataflow.consumers(node)], default=0)
        for layer in range(depth[id(node)], max(last, depth[id(node)]) + 1):
            cell = Cell(node, layer > depth[id(node)], layer)
            cells[id(node), layer] = cell
            layers[layer].append(cell)
    links: dict[tuple[int, int], tuple[Cell, Cell]] = {}
    for node in dataflow.nodes:
        for upstream in node.upstreams:
            for layer in range(depth[id(upstream)], depth[id(node)]):
                lower = node if layer + 1 == depth[id(node)] else upstream
                pair = cells[id(upstream), layer], cells[id(lower), layer + 1]
                links[id(pair[0]), id(pair[1])] = pair
    return _ordered(Layout(tuple(map(tuple, layers)), tuple(links.values())))


def _depths(dataflow: Dataflow) -> dict[int, int]:
    """Layer of every node: below all it receives from; a source just above its first user."""
    depth: dict[int, int] = {}
    for node in dataflow.nodes:
        depth[id(node)] = max((depth[id(up)] + 1 for up in node.upstreams), default=0)
    for node in dataflow.nodes:
        if not node.upstreams:
            users = [depth[id(user)] - 1 for user in dataflow.consumers(node)]
            depth[id(node)] = min(users, default=0)
    return depth


def _ordered(layout: Layout) -> Layout:
    best, fewest = layout, _crossings(layout)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        layout = _swept(layout, down=sweep % 2 == 0)
        crossings = _crossings(layout)
        if crossings < fewest:
            best, fewest = layout, crossings
    return best


def _swept(layout: Layout, *, down: bool) -> Layout:
    layers = list(layout.layers)
    around = layout.above if down else layout.below
    for index in range(len(layers)) if down else reversed(range(len(layers))):
        place = {id(cell): float(i) for layer in layers for i, cell in enumerate(layer)}
        layers[index] = tuple(sorted(layers[index], key=_mean_of(around, place)))
    return Layout(tuple(layers), layout.links)


def _mean_of(
    around: Callable[[Cell], list[Cell]], place: dict[int, float]
) -> Callable[[Cell], float]:
    def mean(cell: Cell) -> float:
        others = [place[id(other)] for other in around(cell)]
        return sum(others) / len(others) if others else place[id(cell)]

    return mean


def _crossings(layout: Layout) -> int:
    place = {id(cell): i for layer in layout.layers for i, cell in enumerate(layer)}
    lines = [(a.layer, place[id(a)], place[id(b)]) for a, b in layout.links]
    return sum(
        one[0] == other[0] and (one[1] - other[1]) * (one[2] - other[2]) < 0
        for i, one in enumerate(lines)
        for other in lines[:i]
    )


def centres(layout: Layout, width: Callable[[Cell], float], gap: float) -> dict[int, float]:
    """Horizontal middle of every cell, by identity: close to its neighbours', boxes `gap` apart."""
    middle: dict[int, float] = {}
    for layer in layout.layers:
        edge = 0.0
        for cell in layer:
            middle[id(cell)] = edge + width(cell) / 2
            edge += width(cell) + gap
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        around = layout.above if down else layout.below
        for layer in layout.layers if down else reversed(layout.layers):
            wanted = [_mean_of(around, middle)(cell) for cell in layer]
            middle.update(_apart(layer, wanted, [width(cell) for cell in layer], gap))
    leftmost = min((middle[id(c)] - width(c) / 2 for row in layout.layers for c in row), default=0)
    return {cell: x - leftmost for cell, x in middle.items()}


def _apart(
    layer: Sequence[Cell], wanted: Sequence[float], widths: Sequence[float], gap: float
) -> dict[int, float]:
    """The positions nearest to the wanted ones (least squares) in which boxes keep their distance.

    With each box's own offset taken away that asks for an ascending sequence: neighbours that are
    out of order are pooled at their mean.
    """
    offsets = [0.0]
    for left, right in pairwise(widths):
        offsets.append(offsets[-1] + (left + right) / 2 + gap)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        pools.append((want - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    places = [mean for mean, count in pools for _ in range(count)]
    return {id(c): p + o for c, p, o in zip(layer, places, offsets, strict=True)}
