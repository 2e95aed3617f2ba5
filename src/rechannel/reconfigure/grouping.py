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

    Every group is a maximum matching (Hopcroft and Karp) of the source and target tasks that still have bins to
    transfer (Megaphone, VLDB'19, section 4.4).
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


def _matching(waiting: Sequence[Pair]) -> list[Pair]:
    """As many pairs as possible of which no two share a task."""
    from networkx import Graph
    from networkx.algorithms.bipartite import hopcroft_karp_matching

    # Nodes are numbers: the order of a set of strings differs between processes.
    givers = sorted({(operator, source) for operator, source, _ in waiting})
    takers = sorted({(operator, target) for operator, _, target in waiting})
    top = {giver: number for number, giver in enumerate(givers)}
    bottom = {taker: number for number, taker in enumerate(takers, len(givers))}
    graph = Graph()
    graph.add_nodes_from(top.values())
    for operator, source, target in waiting:
        graph.add_edge(top[operator, source], bottom[operator, target])
    matched_to = hopcroft_karp_matching(graph, top_nodes=top.values())
    found: list[Pair] = []
    busy: set[tuple[str, int]] = set()
    for giver, number in top.items():
        taker = takers[matched_to[number] - len(givers)] if number in matched_to else None
        # A task that gives in one transfer and takes in another would take part in two.
        if taker is None or {giver, taker} & busy:
            continue
        busy |= {giver, taker}
        found.append((*giver, taker[1]))
    return found


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
