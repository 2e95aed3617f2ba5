"""Paths through a window: how many lead to and from every vertex, and how long the longest is.

How many: SnailTrail's Algorithm 2, one pass each way.

Counts grow exponentially with the length of a window: a million events have 10^1000 paths. A count
is therefore a mantissa in [0.5, 1) and an exponent of 2 (0 and 0 for none). Counts are sums of
positive numbers, and every addition rounds by at most u = 2^-53: the relative error of a count is
at most (1 + u)^a - 1, where a is the number of additions on the way to the vertex, at most the
number of edges E. A participation is a product of two counts divided by a third: its relative
error is below 3 E u, 4e-10 for a million edges.

Time orders the vertices of a graph, except at messages that take no time. Those are ordered by the
direction in which they lead; if they form a cycle, one message of each cycle is left out and
counted.

How long: the critical path method (Kelley and Walker, 1959), see `longest`.
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
class Lead:
    """A topological order of the vertices, and the edges by their source."""

    order: Times
    edges: Times
    """Edges that are kept, ordered by source."""
    first: Times
    """First kept edge of every vertex, and the end."""
    target: Times
    """Vertex at which every kept edge ends."""
    left_out: Times

    @classmethod
    def of(cls, graph: WindowGraph) -> Lead:
        """Order a graph. Messages without duration that close a cycle are left out."""
        level, left_out = _levels(graph)
        kept = np.ones(len(graph.source), dtype=np.bool_)
        kept[left_out] = False
        edges = np.flatnonzero(kept)
        edges = edges[np.argsort(graph.source[edges], kind="stable")]
        by_time = np.argsort(graph.time, kind="stable")
        leaving = np.bincount(graph.source[edges], minlength=len(graph.time))
        return cls(
            order=np.lexsort((level, graph.time)) if level.any() else by_time,
            edges=edges,
            first=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(leaving)]),
            target=graph.target[edges],
            left_out=left_out,
        )


def count_paths(graph: WindowGraph) -> Paths:
    """Count the paths to and from every vertex."""
    lead = Lead.of(graph)
    to, to_exp, on, on_exp, all_, all_exp = _passes(
        lead.order, lead.first, lead.target, graph.initial, graph.final
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


def longest(graph: WindowGraph, weight: Times, lead: Lead | None = None) -> int:
    """Return how long a window would last if its edges were as long as given, ns.

    weight: of every edge, ns, shape (edges,). lead: of the graph, if it is known already.

    Every vertex has its earliest time: it happens as soon as all edges that end there have, so a
    worker does what it did in the same order, a message is sent when its sender has come so far,
    and a worker that waited for a message continues as soon as that is there and its own past is
    over. The window is over when every worker has come as far as it had come at its end; it
    begins with every worker, and every message under way, where they were at its beginning.

    So waiting has no length, unless nothing is known that ended it (`WindowGraph.rest`). Nothing
    else is decided anew: tasks stay on their workers, workers keep their order, and a worker that
    answers while it works answers at the same point of its work. What the model says of a change
    is therefore what the change gains by itself, without a better schedule that it may allow.

    With the edges' own weights the result is the length of the window, provided that a path leads
    through it; otherwise it is less.
    """
    lead = Lead.of(graph) if lead is None else lead
    kept = np.ascontiguousarray(weight[lead.edges])
    found = _longest(
        lead.order, lead.first, lead.target, kept, graph.rest, graph.initial, graph.final
    )
    return int(found)


@nb.njit(cache=True, nogil=True)
def _longest(  # noqa: PLR0917 - compiled: plain arrays instead of values
    order: Any, first: Any, target: Any, weight: Any, rest: Any, initial: Any, final: Any
) -> int:  # pragma: no cover - compiled
    """Return the latest of the earliest times of the final vertices, 0 if none can be reached."""
    at = np.full(len(order), -1, dtype=np.int64)
    for v in initial:
        at[v] = 0
    for i in range(len(order)):
        v = order[i]
        if at[v] < 0:
            continue
        for e in range(first[v], first[v + 1]):
            w = target[e]
            at[w] = max(at[w], at[v] + weight[e])
        if rest[v] >= 0:
            at[v + 1] = max(at[v + 1], at[v] + rest[v])
    found = 0
    for v in final:
        found = max(found, at[v])
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
