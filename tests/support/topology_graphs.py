"""The meta topology as graphs: the full one, and the pruned one with a vertex for each that is left.

Every channel is an edge. The rules of pruning are applied to these graphs by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from networkx import DiGraph

from rechannel.model.configuration import Configuration
from rechannel.reconfigure.steps import BinMove
from rechannel.reconfigure.topology.meta import MetaTopology
from rechannel.reconfigure.topology.pruning import comparable, spread_edges
from rechannel.reconfigure.topology.values import Channels


class Vertex(NamedTuple):
    """A task."""

    operator: str
    task: int
    side: str
    """"old" or "new"; "both" for a vertex that was merged."""


def full_graph(
    channels: Channels, old: Configuration, new: Configuration, moves: Sequence[BinMove]
) -> DiGraph[Vertex]:
    """G + G* + E(V, V*): nothing is merged. Edges have the attribute `kind`, "channel" or "state"."""
    graph: DiGraph[Vertex] = DiGraph()
    for side, upstreams, configuration in (
        ("old", channels.before, old),
        ("new", channels.after, new),
    ):
        vertices = {
            name: [Vertex(name, task, side) for task in range(operator.tasks)]
            for name, operator in configuration.operators.items()
        }
        for name, tasks in vertices.items():
            graph.add_nodes_from(tasks)
            senders = [one for up in upstreams.get(name, ()) for one in vertices.get(up, ())]
            graph.add_edges_from(((a, b) for a in senders for b in tasks), kind="channel")
    for name, before in old.operators.items():
        after = new.operators.get(name)
        if after is not None and comparable(before, after) and before.routing and after.routing:
            for task in range(min(before.tasks, after.tasks)):
                mine = before.routing.intervals_of(task).intersect(after.routing.intervals_of(task))
                if mine:
                    graph.add_edge(
                        Vertex(name, task, "old"), Vertex(name, task, "new"), kind="state"
                    )
            graph.add_edges_from(
                (
                    (Vertex(name, source, "old"), Vertex(name, target, "new"))
                    for source, target in spread_edges(before, after)
                ),
                kind="state",
            )
    graph.add_edges_from(
        (
            (Vertex(move.operator, move.source, "old"), Vertex(move.operator, move.target, "new"))
            for move in moves
        ),
        kind="state",
    )
    return graph


def merged_vertex(vertex: Vertex, topology: MetaTopology) -> Vertex:
    """The vertex of the pruned graph that a vertex of the full graph became."""
    found = topology.of(vertex.operator)
    if vertex.task in found.unaffected or vertex.task in found.kept:
        return vertex._replace(side="both")
    return vertex


def pruned_graph(full: DiGraph[Vertex], topology: MetaTopology) -> DiGraph[Vertex]:
    """The full graph with the vertices merged that the topology merges; an edge of a vertex to itself is left out."""
    graph: DiGraph[Vertex] = DiGraph()
    graph.add_nodes_from(merged_vertex(vertex, topology) for vertex in full)
    for source, target, kind in full.edges(data="kind"):
        one, other = merged_vertex(source, topology), merged_vertex(target, topology)
        if one != other:
            graph.add_edge(one, other, kind=kind)
    return graph
