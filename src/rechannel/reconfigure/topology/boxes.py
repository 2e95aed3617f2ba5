"""Where the boxes of a picture of a meta topology go: a row per distance from the sources. Pure.

An operator with few vertices has a box for each, an operator with many a box for each kind of vertex, so that a picture
stays small however many tasks there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rechannel.reconfigure.topology.values import (
    OperatorTopology,
    StateEdge,
    Tasks,
)
from rechannel.reconfigure.topology.words import numbers

MOST_BOXES = 12
"""Vertices of an operator that have boxes of their own."""

WIDTH, HEIGHT = 92, 44
GAP, GROUP_GAP = 16, 48
TITLE, CHANNEL = 24, 84
MARGIN = 16

OLD, BOTH, NEW = "old", "both", "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Some vertices of an operator, of one kind."""

    operator: str
    kind: str
    """unaffected, kept, replaced, new or gone."""

    side: str
    """Whether the vertices are of the old graph, of the new one, or of both."""

    tasks: Tasks
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        """Horizontal middle."""
        return self.x + WIDTH / 2

    @property
    def label(self) -> str:
        """Numbers of its tasks."""
        return numbers(self.tasks) if len(self.tasks.ranges) < 3 else f"{len(self.tasks)} tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The boxes of one operator."""

    topology: OperatorTopology
    boxes: tuple[Box, ...]

    def transfers(self) -> dict[tuple[int, int], list[StateEdge]]:
        """Edges of state between two boxes, by their numbers in the group."""
        gives: dict[int, int] = {}
        gets: dict[int, int] = {}
        wanted = {task for edge in self.topology.state for task in (edge.source, edge.target)}
        for number, box in enumerate(self.boxes):
            for task in wanted.intersection(box.tasks):
                if box.side != NEW:
                    gives[task] = number
                if box.side != OLD:
                    gets[task] = number
        out: dict[tuple[int, int], list[StateEdge]] = {}
        for edge in self.topology.state:
            if edge.source in gives and edge.target in gets:
                out.setdefault((gives[edge.source], gets[edge.target]), []).append(edge)
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """All boxes at their places."""

    groups: tuple[Group, ...]
    width: float
    height: float


def placed(operators: Sequence[OperatorTopology]) -> Plane:
    """Put every operator in the row below all that it receives rows from."""
    by_name = {one.operator: one for one in operators}
    rows: dict[int, list[OperatorTopology]] = {}
    for operator, depth in _depths(operators).items():
        rows.setdefault(depth, []).append(by_name[operator])
    spans = [[list(_boxes(one)) for one in rows[depth]] for depth in sorted(rows)]
    widths = [sum(map(_width, row)) + GROUP_GAP * (len(row) - 1) for row in spans]
    width = max(widths, default=0.0)
    groups: list[Group] = []
    for number, (row, wide) in enumerate(zip(spans, widths, strict=True)):
        y = MARGIN + TITLE + number * (HEIGHT + TITLE + CHANNEL)
        x = MARGIN + (width - wide) / 2
        for boxes in row:
            at = [replace(box, x=x + i * (WIDTH + GAP), y=y) for i, box in enumerate(boxes)]
            groups.append(Group(topology=by_name[boxes[0].operator], boxes=tuple(at)))
            x += _width(boxes) + GROUP_GAP
    height = MARGIN + len(spans) * (HEIGHT + TITLE + CHANNEL)
    last = groups[-1].boxes[0].y if groups else 0.0
    if groups and not any(group.topology.state for group in groups if group.boxes[0].y == last):
        height += MARGIN - CHANNEL
    return Plane(groups=tuple(groups), width=width + 2 * MARGIN, height=height)


def _width(boxes: list[Box]) -> float:
    return len(boxes) * (WIDTH + GAP) - GAP


def _boxes(operator: OperatorTopology) -> Iterator[Box]:
    kinds = (
        ("unaffected", operator.unaffected, BOTH),
        ("kept", operator.kept, BOTH),
        ("replaced", operator.replaced, OLD),
        ("gone", operator.gone, OLD),
        ("replaced", operator.replaced, NEW),
        ("new", operator.new, NEW),
    )
    each = sum(len(tasks) for _, tasks, _ in kinds) <= MOST_BOXES
    for kind, tasks, side in kinds:
        together = [tasks] if tasks else []
        for some in [Tasks.of((task,)) for task in tasks] if each else together:
            yield Box(operator=operator.operator, kind=kind, side=side, tasks=some)


def _depths(operators: Sequence[OperatorTopology]) -> dict[str, int]:
    """How many operators are on the longest way from a source, before or after the change; cycles are cut."""
    depth: dict[str, int] = {}
    known = {one.operator: (*one.upstream, *one.upstream_before) for one in operators}
    for _ in known:
        before = dict(depth)
        for name, upstream in known.items():
            depth[name] = max((depth.get(up, 0) + 1 for up in upstream if up in known), default=0)
        if depth == before:
            break
    return depth
