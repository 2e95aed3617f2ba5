"""A dataflow drawn with box characters, sources on top."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import permutations

from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.dataflow.pictures.captions import caption, shorten
from rechannel.dataflow.pictures.layout import Cell, Layout, centres, lay_out

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8

_LINES = {
    _UP | _DOWN: "│",
    _LEFT | _RIGHT: "─",
    _DOWN | _RIGHT: "┌",
    _DOWN | _LEFT: "┐",
    _UP | _RIGHT: "└",
    _UP | _LEFT: "┘",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _DOWN | _LEFT | _RIGHT: "┬",
    _UP | _LEFT | _RIGHT: "┴",
    _UP | _DOWN | _LEFT | _RIGHT: "┼",
    _UP: "│",
    _DOWN: "│",
    _LEFT: "─",
    _RIGHT: "─",
}

_BOX_ROWS = 4
_GAP = 3
_TEXT = 38
_TRIED = 6
"""With at most this many lines between two layers, every order of their rows is tried."""

Link = tuple[int, tuple[int, ...]]
"""Lines that leave one column and reach others."""


def draw_text(dataflow: Dataflow, tasks: Mapping[str, int] | None = None) -> str:
    """A picture of names, kinds, keys and tasks, for a fixed-width font.

    tasks: current number of tasks by name; without it, what the user asked for.
    """
    layout = lay_out(dataflow)
    texts = {
        id(cell): (shorten(cell.node.name, _TEXT), caption(cell.node, tasks, _TEXT))
        for layer in layout.layers
        for cell in layer
    }
    return _Drawing(layout, texts).draw()


class _Drawing:
    """A canvas of characters, and the lines on it as directions that meet in a cell."""

    def __init__(self, layout: Layout, texts: Mapping[int, tuple[str, str]]) -> None:
        self.layout = layout
        self.texts = texts
        self.lines: dict[tuple[int, int], int] = defaultdict(int)
        self.marks: dict[tuple[int, int], str] = {}
        self.left = self._lefts()

    def draw(self) -> str:
        row = 0
        for number, layer in enumerate(self.layout.layers):
            for cell in layer:
                self._cell(cell, row)
            row += _BOX_ROWS
            if number + 1 < len(self.layout.layers):
                row = self._channel(layer, row)
        return self._rendered(row)

    def width(self, cell: Cell) -> int:
        """Columns of a cell: always odd, so that boxes have a middle column to align by."""
        return 1 if cell.bend else (max(map(len, self.texts[id(cell)])) + 4) | 1

    def port(self, cell: Cell) -> int:
        """Column in which lines leave, and enter unless there are several."""
        return self.left[id(cell)] + self.width(cell) // 2

    def entry(self, cell: Cell, upper: Cell) -> int:
        """Column in which the line from one upper cell enters: several are spread over the box."""
        uppers = sorted(self.layout.above(cell), key=self.port)
        place = next(i for i, other in enumerate(uppers) if other is upper) + 1
        return self.left[id(cell)] + self.width(cell) * place // (len(uppers) + 1)

    def _lefts(self) -> dict[int, int]:
        """First column of every cell; rounding may not push boxes into each other."""
        middle = centres(self.layout, self.width, _GAP)
        left: dict[int, int] = {}
        for layer in self.layout.layers:
            edge = 0
            for cell in layer:
                edge = max(edge, round(middle[id(cell)] - self.width(cell) / 2))
                left[id(cell)] = edge
                edge += self.width(cell) + _GAP
        return left

    def _cell(self, cell: Cell, row: int) -> None:
        if cell.bend:
            self._vertical(self.port(cell), row - 1, row + _BOX_ROWS)
            return
        left, width = self.left[id(cell)], self.width(cell)
        right, bottom = left + width - 1, row + _BOX_ROWS - 1
        self._horizontal(row, left, right)
        self._horizontal(bottom, left, right)
        self._vertical(left, row, bottom)
        self._vertical(right, row, bottom)
        for line, text in enumerate(self.texts[id(cell)], start=row + 1):
            for column, mark in enumerate(text, start=left + 2):
                self.marks[line, column] = mark

    def _channel(self, layer: Sequence[Cell], row: int) -> int:
        """Lines from a layer to the next; returns the first row below them."""
        links: list[Link] = []
        arrows: list[int] = []
        for upper in layer:
            lowers = self.layout.below(upper)
            entries = tuple(self.entry(lower, upper) for lower in lowers)
            arrows += [x for x, lower in zip(entries, lowers, strict=True) if not lower.bend]
            if entries:
                links.append((self.port(upper), entries))
        tracks = arrange([link for link in links if set(link[1]) != {link[0]}])
        end = row + len(tracks)
        for link in links:
            start, entries = link
            track = next((row + i for i, bent in enumerate(tracks) if link in bent), end)
            self._vertical(start, row - 1, track)
            self._horizontal(track, min(start, *entries), max(start, *entries))
            for column in entries:
                self._vertical(column, track, end)
        self.marks |= {(end, column): "▼" for column in arrows}
        return end + 1

    def _vertical(self, column: int, top: int, bottom: int) -> None:
        for row in range(top, bottom):
            self.lines[row, column] |= _DOWN
            self.lines[row + 1, column] |= _UP

    def _horizontal(self, row: int, left: int, right: int) -> None:
        for column in range(left, right):
            self.lines[row, column] |= _RIGHT
            self.lines[row, column + 1] |= _LEFT

    def _rendered(self, rows: int) -> str:
        drawn = {place: _LINES[way] for place, way in self.lines.items() if way} | self.marks
        columns = max((column for _, column in drawn), default=-1) + 1
        lines = ("".join(drawn.get((r, c), " ") for c in range(columns)) for r in range(rows))
        return "\n".join(line.rstrip() for line in lines)


def arrange(links: Sequence[Link]) -> list[list[Link]]:
    """Rows for bent lines, so that few cross and none lie on each other."""
    order = min(permutations(links), key=_cost) if len(links) <= _TRIED else tuple(links)
    rows: list[list[Link]] = []
    for link in order:
        if rows and not any(_overlap(link, other) for other in rows[-1]):
            rows[-1].append(link)
        else:
            rows.append([link])
    return rows


def _overlap(one: Link, other: Link) -> bool:
    (a, ends), (b, others) = one, other
    return min(a, *ends) <= max(b, *others) and min(b, *others) <= max(a, *ends)


def _cost(order: Sequence[Link]) -> int:
    """Crossings, and far worse: the leg up from one line in the same column as a leg down."""
    cost = 0
    for row, (start, entries) in enumerate(order):
        left, right = min(start, *entries), max(start, *entries)
        for other, (above, below) in enumerate(order):
            if other > row:
                cost += left < above < right
            elif other < row:
                cost += sum(left < column < right for column in below)
                cost += 1000 * (start in below)
    return cost
