"""The meta topology in words: a line per operator that a change affects, however many tasks it has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rechannel.model.text import in_bytes
from rechannel.reconfigure.topology.values import OperatorTopology, StateEdge, Tasks

MOST_RANGES = 6
"""Ranges of tasks that are written out."""

MOST_EDGES = 6
"""Transfers of state that are written out: those with the most bytes."""

MOST_OPERATORS = 8
"""Unaffected operators that are named."""


def lines_of(operators: Sequence[OperatorTopology]) -> list[str]:
    """A line per operator with affected tasks, and one for all others."""
    lines = [line_of(one) for one in operators if not one.untouched]
    names = [one.operator for one in operators if one.untouched]
    if names:
        lines.append(f"unaffected: all tasks of {_few(names, MOST_OPERATORS)}")
    return lines


def line_of(operator: OperatorTopology) -> str:
    """Which of an operator's tasks are what, then who sends state to whom."""
    sets = (
        (operator.unaffected, "unaffected"),
        (operator.kept, "kept"),
        (operator.replaced, "replaced"),
        (operator.new, "new"),
        (operator.gone, "gone"),
    )
    tasks = ", ".join(f"{numbers(which)} {word}" for which, word in sets if which)
    parts = [f"tasks of {operator.operator}: {tasks}"]
    if operator.state:
        largest = sorted(operator.state, key=lambda edge: (-edge.size, -edge.bins))
        parts.append(f"state {_few(list(map(_edge, largest)), MOST_EDGES)}")
    return "; ".join(parts)


def numbers(tasks: Tasks) -> str:
    """Numbers of tasks as ranges, and how many there are if not all ranges are written out."""
    ranges = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in tasks.ranges[:MOST_RANGES]]
    if len(tasks.ranges) > MOST_RANGES:
        return f"{' '.join(ranges)} ... ({len(tasks)} tasks)"
    return " ".join(ranges)


def total(edges: Iterable[StateEdge]) -> str:
    """Bins and bytes of some edges together."""
    found = list(edges)
    bins = sum(edge.bins for edge in found)
    return f"{bins} bin{'s' * (bins != 1)}, {in_bytes(sum(edge.size for edge in found))}"


def _edge(edge: StateEdge) -> str:
    if edge.source == edge.target:
        return f"{edge.source} rewritten ({total([edge])})"
    return f"{edge.source} -> {edge.target} ({total([edge])})"


def _few(words: Sequence[str], most: int) -> str:
    more = len(words) - most
    return ", ".join(words[:most]) + (f" and {more} more" if more > 0 else "")
