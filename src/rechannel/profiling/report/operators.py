"""Operators as a graph: what each of them takes of the critical path, and what the messages between them take.

Messages belong to the operator that receives rows. Who sends them is known from the plan (`links`); without one, it is
the operator that the sending worker spends most time on. If several operators send to one, the messages of all of them
are one bundle: a log does not say which of them a task waited for. Workers without operators, such as the driver, are
vertices of their own; messages with them are a figure of the operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from rechannel.profiling.model.summaries import Profile
from rechannel.profiling.report.layers import Spot, layered

KINDS = 6
"""Kinds that are listed per operator."""


@dataclass(slots=True, kw_only=True)
class Vertex:
    """An operator, or a worker without operators."""

    name: str
    operator: int
    """Index of the operator; -1 for a worker."""
    critical: float = 0.0
    profile: float = 0.0
    workers: int = 0
    kinds: list[tuple[int, float]] = field(default_factory=list)
    """Kinds and their share of the critical path, the largest first."""
    driven: float = 0.0
    """Share of messages with workers that have no operators: launches and results."""
    among: float = 0.0
    """Share of messages between its own workers, if nothing is known to send to it."""
    spot: Spot = field(default_factory=partial(Spot, component=0, layer=0, place=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Messages from some operators to one."""

    sources: tuple[int, ...]
    """Vertices."""
    target: int
    critical: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """Vertices, the most critical first, and bundles of messages."""

    vertices: list[Vertex]
    bundles: list[Bundle]
    left_out: int
    """Number of operators that are not in it."""

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "vertices": [
                {
                    "name": each.name,
                    "operator": each.operator,
                    "critical": _rounded(each.critical),
                    "profile": _rounded(each.profile),
                    "workers": each.workers,
                    "kinds": [[kind, _rounded(share)] for kind, share in each.kinds],
                    "driven": _rounded(each.driven),
                    "among": _rounded(each.among),
                    "component": each.spot.component,
                    "layer": each.spot.layer,
                    "place": each.spot.place,
                }
                for each in self.vertices
            ],
            "bundles": [
                {
                    "sources": list(each.sources),
                    "target": each.target,
                    "critical": _rounded(each.critical),
                    "count": each.count,
                }
                for each in self.bundles
            ],
            "left_out": self.left_out,
        }


def operator_graph(found: Profile, links: Sequence[tuple[str, str]], most: int) -> OperatorGraph:
    """Return the graph of the `most` most critical operators.

    links: names of operators of which the second reads what the first writes.
    """
    operators = found.by("operator", "kind", where=~pl.col("message") & (pl.col("operator") >= 0))
    if not len(operators):
        return OperatorGraph(vertices=[], bundles=[], left_out=0)
    number = {name: i for i, name in reversed(list(enumerate(found.names.operators)))}
    kinds = {name: i for i, name in enumerate(found.names.kinds)}
    owner = _owners(found)
    vertices: dict[str, Vertex] = {}
    for name, workers in found.by_operator().head(most).select("operator", "workers").iter_rows():
        vertices[name] = Vertex(name=name, operator=number[name], workers=workers)
    for name, kind, critical, profile in operators.select(
        "operator", "kind", "critical", "profile"
    ).iter_rows():
        if name in vertices:
            _add(vertices[name], kinds[kind], critical, profile)
    others = found.by("worker", "kind", where=~pl.col("message") & (pl.col("operator") < 0))
    for name, kind, critical, profile in others.select(
        "worker", "kind", "critical", "profile"
    ).iter_rows():
        if name not in owner and len(vertices) < 2 * most:
            vertex = vertices.setdefault(f"\0{name}", Vertex(name=name, operator=-1, workers=1))
            _add(vertex, kinds[kind], critical, profile)
    bundles = _bundles(found, vertices, owner, _readers(links))
    made = _placed(list(vertices.values()), bundles)
    return OperatorGraph(
        vertices=made, bundles=bundles, left_out=max(0, operators["operator"].n_unique() - most)
    )


def _add(vertex: Vertex, kind: int, critical: float, profile: float) -> None:
    vertex.critical += critical
    vertex.profile += profile
    vertex.kinds = sorted([*vertex.kinds, (kind, critical)], key=lambda each: -each[1])[:KINDS]


def _owners(found: Profile) -> dict[str, str]:
    """Return the operator that each worker spends most time on, for workers that have one."""
    mine = found.by("worker", "operator", where=~pl.col("message") & (pl.col("operator") >= 0))
    first = mine.sort(["ns", "operator"], descending=[True, False]).group_by("worker").first()
    return dict(first.select("worker", "operator").iter_rows())


def _readers(links: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return what each operator reads."""
    reads: dict[str, list[str]] = {}
    for source, target in dict.fromkeys(links):
        reads.setdefault(target, []).append(source)
    return reads


def _bundles(
    found: Profile,
    vertices: dict[str, Vertex],
    owner: dict[str, str],
    reads: dict[str, list[str]],
) -> list[Bundle]:
    place = {name: i for i, name in enumerate(vertices)}
    sums: dict[tuple[tuple[int, ...], int], list[float]] = {}
    for target, sources in reads.items():
        known = _places(sources, target, place)
        if target in place and known and known != (place[target],):
            sums[known, place[target]] = [0.0, 0.0]
    messages = found.by("operator", "worker", "peer", where=pl.col("message"))
    for operator, worker, peer, critical, count in messages.select(
        "operator", "worker", "peer", "critical", "edges"
    ).iter_rows():
        if worker not in owner or peer not in owner:
            name = operator or owner.get(worker) or owner.get(peer)
            if name in vertices:
                vertices[name].driven += critical
            continue
        target = operator or owner[peer]
        sources = reads.get(target) or [owner[worker]]
        known = _places(sources, target, place)
        if target not in place or not known:
            continue
        if known == (place[target],):
            vertices[target].among += critical
        else:
            held = sums.setdefault((known, place[target]), [0.0, 0.0])
            held[0] += critical
            held[1] += count
    return [
        Bundle(sources=sources, target=target, critical=critical, count=int(count))
        for (sources, target), (critical, count) in sums.items()
    ]


def _places(sources: Sequence[str], target: str, place: dict[str, int]) -> tuple[int, ...]:
    """Return the vertices that send to another; itself only if no other one does."""
    known = sorted({place[each] for each in sources if each in place})
    return tuple(each for each in known if each != place.get(target)) or tuple(known)


def _placed(vertices: list[Vertex], bundles: Sequence[Bundle]) -> list[Vertex]:
    pairs = [(source, each.target) for each in bundles for source in each.sources]
    for vertex, spot in zip(vertices, layered(len(vertices), pairs), strict=True):
        vertex.spot = spot
    return vertices


def _rounded(share: float) -> float:
    return round(share, 6)
