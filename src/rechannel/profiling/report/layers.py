"""A graph in layers: every edge leads down, and those next to each other in a layer are in an order with few crossings.

After Sugiyama, Tagawa and Toda (1981): edges that close a cycle are turned round, a vertex lies below all that lead to
it, and layers are ordered by the mean place of the neighbours, down and up again. Components lie beside each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SWEEPS = 4
"""How often layers are ordered, down and up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a vertex lies."""

    component: int
    layer: int
    """From the top, from 0 on."""
    place: int
    """In its layer, from 0 on."""


def layered(count: int, edges: Iterable[tuple[int, int]]) -> list[Spot]:
    """Return where `count` vertices lie. Edges from a vertex to itself do not matter."""
    pairs = _without_cycles(count, sorted({(a, b) for a, b in edges if a != b}))
    component = _components(count, pairs)
    layer = _layers(count, pairs)
    members: dict[tuple[int, int], list[int]] = {}
    for vertex in range(count):
        members.setdefault((component[vertex], layer[vertex]), []).append(vertex)
    place = {v: float(i) for row in members.values() for i, v in enumerate(row)}
    above, below = _neighbours(count, pairs)
    for sweep in range(SWEEPS):
        near, keys = (above, sorted(members)) if sweep % 2 == 0 else (below, sorted(members)[::-1])
        for key in keys:
            members[key].sort(key=lambda v, near=near: (_mean(v, near, place), place[v]))  # type: ignore[misc]
            place |= {v: float(i) for i, v in enumerate(members[key])}
    return [Spot(component=component[v], layer=layer[v], place=int(place[v])) for v in range(count)]


def _mean(vertex: int, near: Sequence[list[int]], place: Mapping[int, float]) -> float:
    known = [place[each] for each in near[vertex]]
    return sum(known) / len(known) if known else place[vertex]


def _neighbours(
    count: int, pairs: Iterable[tuple[int, int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the vertices above and below each vertex."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _without_cycles(count: int, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Turn edges round that lead back to a vertex on the way to them; a walk in depth finds them."""
    _, below = _neighbours(count, pairs)
    state, found = [0] * count, []
    for root in range(count):
        if state[root]:
            continue
        state[root] = 1
        walk = [(root, iter(below[root]))]
        while walk:
            vertex, rest = walk[-1]
            to = next(rest, None)
            if to is None:
                state[vertex] = 2
                walk.pop()
            elif state[to] == 1:
                found.append((to, vertex))
            else:
                found.append((vertex, to))
                if not state[to]:
                    state[to] = 1
                    walk.append((to, iter(below[to])))
    return sorted(set(found))


def _layers(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of the longest way to every vertex."""
    above, below = _neighbours(count, pairs)
    waits, layer = [len(each) for each in above], [0] * count
    ready = [v for v in range(count) if not waits[v]]
    for vertex in ready:  # grows while it is read
        for to in below[vertex]:
            layer[to] = max(layer[to], layer[vertex] + 1)
            waits[to] -= 1
            if not waits[to]:
                ready.append(to)
    return layer


def _components(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the component of every vertex, numbered by their first vertices."""
    lead = list(range(count))

    def root(vertex: int) -> int:
        while lead[vertex] != vertex:
            lead[vertex] = lead[lead[vertex]]
            vertex = lead[vertex]
        return vertex

    for a, b in pairs:
        first, second = sorted((root(a), root(b)))
        lead[second] = first
    number: dict[int, int] = {}
    return [number.setdefault(root(vertex), len(number)) for vertex in range(count)]
