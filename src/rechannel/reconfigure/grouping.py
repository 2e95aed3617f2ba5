"""Ways to group moves into steps. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rechannel.reconfigure.steps import BinMove

Group = tuple[BinMove, ...]
Pair = tuple[str, int, int]
"""Operator, source task, target task."""


def chunks(moves: Sequence[BinMove], size: int) -> Iterator[Group]:
    """Groups of that many moves, in order."""
    for start in range(0, len(moves), size):
        yield tuple(moves[start : start + size])


def matched(moves: Sequence[BinMove], bins: int) -> Iterator[Group]:
    """Groups in which each task takes part in at most one transfer of at most `bins` bins, with as many as possible.

    Every group is a maximum matching of the tasks that still have bins to transfer (Megaphone, VLDB'19, section 4.4).
    The graph is not bipartite, because a task can give in one transfer and take in another; the matching is exact all
    the same (Edmonds' blossoms).
    """
    waiting: dict[Pair, list[BinMove]] = {}
    for move in moves:
        waiting.setdefault((move.operator, move.source, move.target), []).append(move)
    while waiting:
        pairs = _matching(sorted(waiting))
        # The matching stays the same until one of its pairs has nothing left.
        times = min(-(-len(waiting[pair]) // bins) for pair in pairs)
        for number in range(times):
            part = slice(number * bins, (number + 1) * bins)
            yield tuple(move for pair in pairs for move in waiting[pair][part])
        for pair in pairs:
            waiting[pair] = waiting[pair][times * bins :]
            if not waiting[pair]:
                del waiting[pair]


def load_matching() -> None:
    """Import what finds matchings, which takes a good part of a second."""
    import networkx  # noqa: F401 - imported for what imports it later


def _matching(waiting: Sequence[Pair]) -> list[Pair]:
    """As many pairs as possible of which no two share a task; of two pairs between the same tasks, the first."""
    from networkx import Graph, max_weight_matching

    # Nodes are numbers: the order of a set of strings differs between processes.
    numbers: dict[tuple[str, int, bool], int] = {}
    between: dict[tuple[int, int], Pair] = {}
    for operator, source, target in waiting:
        giver = numbers.setdefault((operator, source, False), len(numbers))
        # A bin that is rewritten stays at its task: that task is matched with a node that only it has.
        taker = numbers.setdefault((operator, target, source == target), len(numbers))
        between.setdefault((min(giver, taker), max(giver, taker)), (operator, source, target))
    graph = Graph()
    graph.add_edges_from(between)
    found = max_weight_matching(graph, maxcardinality=True)
    return sorted(between[min(edge), max(edge)] for edge in found)


def within(group: Sequence[BinMove], budget: float) -> Iterator[Group]:
    """Cut a group wherever the bytes of its moves would exceed a budget; each part has at least one move."""
    part: list[BinMove] = []
    size = 0.0
    for move in group:
        if part and size + move.size > budget:
            yield tuple(part)
            part, size = [], 0.0
        part.append(move)
        size += move.size
    if part:
        yield tuple(part)
