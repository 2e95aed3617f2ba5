"""How many paths lead to and from every vertex: SnailTrail's Algorithm 2, one pass each way.

Counts grow exponentially with the length of a window: a million events have 10^1000 paths. A count
is therefore a mantissa in [0.5, 1) and an exponent of 2 (0 and 0 for none). Counts are sums of
positive numbers, and every addition rounds by at most u = 2^-53: the relative error of a count is
at most (1 + u)^a - 1, where a is the number of additions on the way to the vertex, at most the
number of edges E. A participation is a product of two counts divided by a third: its relative
error is below 3 E u, 4e-10 for a million edges.

Time orders the vertices of a graph, except at messages that take no time. Those are ordered by the
direction in which they lead; if they form a cycle, one message of each cycle is left out and
counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, ldexp
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import Times
from rechannel.profiling.model.window_graph import WindowGraph

Floats = npt.NDArray[np.float64]

LONGEST = 1_000
"""Length of a chain of messages without duration from which on it is taken for a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PathCounts:
    """Numbers mantissa * 2^exponent."""

    mantissa: Floats
    exponent: Times


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """Numbers of paths through a window."""

    to: PathCounts
    """Paths from the beginning of the window to every vertex."""
    on: PathCounts
    """Paths from every vertex to the end of the window."""
    total: PathCounts
    """All paths through the window. Shape (1,)."""
    left_out: Times
    """Edges that were left out: messages without duration that closed a cycle."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Lead:
    """A topological order of the vertices, and the edges by their source."""

    order: Times
    edges: Times
    """Edges that are kept, ordered by source."""
    first: Times
    """First kept edge of every vertex, and the end."""
    left_out: Times

    @classmethod
    def of(cls, graph: WindowGraph) -> _Lead:
        """Order a graph. Messages without duration that close a cycle are left out."""
        level, left_out = _levels(graph)
        kept = np.ones(len(graph.source), dtype=np.bool_)
        kept[left_out] = False
        edges = np.flatnonzero(kept)
        edges = edges[np.argsort(graph.source[edges], kind="stable")]
        by_time = np.argsort(graph.time, kind="stable")
        return cls(
            order=np.lexsort((level, graph.time)) if level.any() else by_time,
            edges=edges,
            first=np.searchsorted(graph.source[edges], np.arange(len(graph.time) + 1)),
            left_out=left_out,
        )


def count_paths(graph: WindowGraph) -> Paths:
    """Count the paths to and from every vertex."""
    lead = _Lead.of(graph)
    to, to_exp, on, on_exp, all_, all_exp = _passes(
        lead.order, lead.first, graph.target[lead.edges], graph.initial, graph.final
    )
    return Paths(
        to=PathCounts(mantissa=to, exponent=to_exp),
        on=PathCounts(mantissa=on, exponent=on_exp),
        total=PathCounts(mantissa=np.array([all_]), exponent=np.array([all_exp])),
        left_out=lead.left_out,
    )


def _levels(graph: WindowGraph) -> tuple[Times, Times]:
    """Return the order of vertices that have the same time, and the messages that fit into none."""
    level = np.zeros(len(graph.time), dtype=np.int64)
    at_once = np.flatnonzero(graph.time[graph.source] == graph.time[graph.target])
    if not len(at_once):
        return level, at_once
    dropped = _relax(level, graph.source[at_once], graph.target[at_once])
    return level, at_once[dropped]


@nb.njit(cache=True, nogil=True)
def _relax(level: Any, source: Any, target: Any) -> Any:  # pragma: no cover - compiled
    """Set levels so that every edge leads upwards; drop edges that close a cycle."""
    dropped = np.zeros(len(source), dtype=np.bool_)
    above = np.zeros(len(level), dtype=np.int64)  # how often a vertex was raised
    changed = True
    while changed:
        changed = False
        for e in range(len(source)):
            if not dropped[e] and level[target[e]] <= level[source[e]]:
                above[target[e]] += 1
                if source[e] == target[e] or above[target[e]] > min(len(source), LONGEST):
                    dropped[e] = True
                else:
                    level[target[e]] = level[source[e]] + 1
                changed = True
    return dropped


def least(graph: WindowGraph, cost: Times) -> int | None:
    """Return the least that any path through the window costs; None if there is no path.

    cost: of every edge, shape (edges,). All these paths are equally long: if the edges cost
    nothing, the longest path would be shorter by this much, and no more.
    """
    lead = _Lead.of(graph)
    found = _least(
        lead.order,
        lead.first,
        graph.target[lead.edges],
        cost[lead.edges],
        graph.initial,
        graph.final,
    )
    return None if found < 0 else int(found)


@nb.njit(cache=True, nogil=True)
def _least(
    order: Any, first: Any, target: Any, cost: Any, initial: Any, final: Any
) -> int:  # pragma: no cover - compiled
    """Return the cost of the cheapest path from an initial to a final vertex, -1 if there is none."""
    best = np.full(len(order), -1, dtype=np.int64)
    for v in initial:
        best[v] = 0
    for i in range(len(order)):
        v = order[i]
        if best[v] < 0:
            continue
        for e in range(first[v], first[v + 1]):
            w = target[e]
            there = best[v] + cost[e]
            if best[w] < 0 or there < best[w]:
                best[w] = there
    found = -1
    for v in final:
        if best[v] >= 0 and (found < 0 or best[v] < found):
            found = best[v]
    return found


@nb.njit(cache=True, nogil=True)
def _passes(
    order: Any, first: Any, target: Any, initial: Any, final: Any
) -> Any:  # pragma: no cover - compiled
    """Count forwards and backwards."""
    count = len(order)
    to = np.zeros(count)
    to_exp = np.zeros(count, dtype=np.int64)
    on = np.zeros(count)
    on_exp = np.zeros(count, dtype=np.int64)
    for v in initial:
        to[v], to_exp[v] = 0.5, 1
    for v in final:
        on[v], on_exp[v] = 0.5, 1
    for i in range(count):
        v = order[i]
        if to[v] == 0.0:
            continue
        for e in range(first[v], first[v + 1]):
            w = target[e]
            to[w], to_exp[w] = _add(to[w], to_exp[w], to[v], to_exp[v])
    for i in range(count - 1, -1, -1):
        v = order[i]
        for e in range(first[v], first[v + 1]):
            w = target[e]
            if on[w] != 0.0:
                on[v], on_exp[v] = _add(on[v], on_exp[v], on[w], on_exp[w])
    all_, all_exp = 0.0, 0
    for v in initial:
        if on[v] != 0.0:
            all_, all_exp = _add(all_, all_exp, on[v], on_exp[v])
    return to, to_exp, on, on_exp, all_, all_exp


@nb.njit(cache=True, nogil=True)
def _add(one: float, one_exp: int, two: float, two_exp: int) -> Any:  # pragma: no cover - compiled
    """Return the sum of two counts."""
    if one == 0.0:
        return two, two_exp
    if two == 0.0:
        return one, one_exp
    if one_exp < two_exp:
        one, one_exp, two, two_exp = two, two_exp, one, one_exp
    if one_exp - two_exp > 60:
        return one, one_exp
    mantissa, up = frexp(one + ldexp(two, two_exp - one_exp))
    return mantissa, one_exp + up
