"""Moves in groups, as a strategy wants them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rechannel.reconfigure.steps import BinMove, Route, Step
from rechannel.reconfigure.strategies import AllAtOnce, Batched, Fluid, Strategy

Group = tuple[BinMove, ...]
Pair = tuple[str, int, int]
"""Operator, source task, target task."""


def steps_of(route: Route, strategy: Strategy, budget: float | None = None) -> tuple[Step, ...]:
    """Steps of a route by a strategy. budget: most bytes that a step may move; a bin is never cut for it."""
    groups = list(grouped(route.moves, strategy))
    if budget is not None:
        groups = [part for group in groups for part in within(group, budget)]
    return route.in_groups(groups)


def grouped(moves: Sequence[BinMove], strategy: Strategy) -> Iterator[Group]:
    """Moves in groups, one per step."""
    match strategy:
        case AllAtOnce():
            yield tuple(moves)
        case Batched(bins=bins) | Fluid(bins=bins):
            for start in range(0, len(moves), bins):
                yield tuple(moves[start : start + bins])
        case _:
            yield from matched(moves, strategy.bins)


def matched(moves: Sequence[BinMove], bins: int) -> Iterator[Group]:
    """Groups in which a task takes part in at most one transfer, each of at most `bins` bins, and most of them do.

    Every group is a maximum matching (Hopcroft and Karp) of the source and target tasks that still have to meet
    (Megaphone, VLDB'19, section 4.4).
    """
    waiting: dict[Pair, list[BinMove]] = {}
    for move in moves:
        waiting.setdefault((move.operator, move.source, move.target), []).append(move)
    while waiting:
        pairs = _matching(sorted(waiting))
        # Until one of them has nothing left, the tasks that have to meet are the same, and so is the matching.
        times = min(-(-len(waiting[pair]) // bins) for pair in pairs)
        for number in range(times):
            part = slice(number * bins, (number + 1) * bins)
            yield tuple(move for pair in pairs for move in waiting[pair][part])
        for pair in pairs:
            waiting[pair] = waiting[pair][times * bins :]
            if not waiting[pair]:
                del waiting[pair]


def _matching(waiting: Sequence[Pair]) -> list[Pair]:
    """Pairs of which no two share a task, as many as there can be between givers and takers."""
    from networkx import Graph
    from networkx.algorithms.bipartite import hopcroft_karp_matching

    # Nodes are numbers: sets of texts have another order in every process.
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
    """Cut a group where the bytes of its moves pass a budget; at least one move each."""
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
