"""The meta topology of a change, pruned, without ever building the full graph. Pure.

The theory is Chi's (Mai et al., "Chi: a scalable and programmable control plane for distributed stream processing
systems", VLDB'18, graph transitions through meta topology). A change leads from the old graph G to the new one G*.
Its meta topology is

    G' = G + G* + E(V, V*)

with a vertex for each task before (V) and for each task after (V*), the channels of both, and an edge from an old to a
new vertex where the new one needs state of the old one: here from the task that owned a bin to the task that owns it
afterwards. A task acts when everything it depends on has acted. Two rules make the graph smaller:

    state invariance      a task whose state does not change has one vertex, with the edges of both
    acyclic invariance    so has any other task that exists before and after, while no cycle appears

`graph.py` builds the full graph and applies the rules to it, literally; tests compare the two. This file
has the same result from two observations, in time that depends on tasks and moves, and not on channels, of which there
are tasks times tasks:

1. Between operators, channels go from every task to every task. So a cycle through several operators exists for any
   merged task of an operator or for none, and one vertex per operator and side decides (`_mergeable`). It can exist
   only if the change turns the direction of the dataflow around.
2. Within an operator, an edge between merged tasks is a transfer of state. So a cycle is one of transfers: task 0 sends
   to 1, and 1 to 0. Tasks on no cycle always merge; in each strongly connected component of transfers, tasks merge in
   ascending order unless one closes a cycle (`_acyclic`). Which tasks merge depends on that order; that no further one
   could does not.

A bin that is rewritten in place, or put on another executor with its task, makes no cycle: it is state that a vertex
needs of itself. Placement changes no state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.reconfigure.steps import BinMove
from rechannel.reconfigure.topology.meta import MetaTopology
from rechannel.reconfigure.topology.values import (
    Channels,
    OperatorTopology,
    StateEdge,
    Tasks,
)

Transfers = Mapping[int, frozenset[int]]
"""By task, the other tasks of its operator that it sends state to."""

Neighbours = Mapping[int, Iterable[int]]
"""By task, those that it sends state to, or that it gets state from."""


def meta_topology(
    channels: Channels, old: Configuration, new: Configuration, moves: Sequence[BinMove]
) -> MetaTopology:
    """The pruned meta topology of a change.

    moves: every bin that gets another owner, and every bin that is rewritten in place, as a `Route` has them.
    """
    of_operator: dict[str, list[BinMove]] = defaultdict(list)
    for move in moves:
        of_operator[move.operator].append(move)
    mergeable = _mergeable(channels, old, new)
    return MetaTopology(
        operators=tuple(
            _operator(name, channels, old, new, of_operator[name], merges=name in mergeable)
            for name in {**old.operators, **new.operators}
        )
    )


def comparable(before: OperatorConfiguration | None, after: OperatorConfiguration | None) -> bool:
    """Whether an operator goes on: it is there before and after, with state both times, or without."""
    if before is None or after is None:
        return False
    return (before.routing is None) == (after.routing is None)


def _operator(
    name: str,
    channels: Channels,
    old: Configuration,
    new: Configuration,
    moves: Sequence[BinMove],
    *,
    merges: bool,
) -> OperatorTopology:
    before, after = old.operators.get(name), new.operators.get(name)
    was, is_ = (0 if one is None else one.tasks for one in (before, after))
    both = min(was, is_)
    state = _state_edges(moves, spread_edges(before, after))
    touched = _touched(state)
    if comparable(before, after) and merges:
        affected = {task for task in touched if task < both}
        unaffected = Tasks.of(task for task in range(both) if task not in touched)
        one_vertex = _acyclic(affected, _transfers(state, affected))
    else:
        affected, unaffected, one_vertex = set(range(both)), Tasks(), frozenset()
    upstream = () if after is None else channels.after.get(name, ())
    upstream_before = () if before is None else channels.before.get(name, ())
    return OperatorTopology(
        operator=name,
        upstream=upstream,
        upstream_before=() if upstream_before == upstream else upstream_before,
        unaffected=unaffected,
        kept=Tasks.of(one_vertex),
        replaced=Tasks.of(affected - one_vertex),
        new=Tasks.of(range(both, is_)),
        gone=Tasks.of(range(both, was)),
        state=state,
    )


def spread_edges(
    before: OperatorConfiguration | None, after: OperatorConfiguration | None
) -> Iterator[tuple[int, int]]:
    """Yield (source, target) for bins that other tasks share than before: all of them read what all of them wrote."""
    if before is None or after is None or before.routing is None or after.routing is None:
        return
    old, new = before.routing, after.routing
    there = {one.lo: one for one in old.spreads}
    then = {one.lo: one for one in new.spreads}
    for lo in sorted(there.keys() | then.keys()):
        if there.get(lo) == then.get(lo):
            continue
        former = there[lo].tasks if lo in there else (old.owners[old.bin_of(lo)],)
        later = then[lo].tasks if lo in then else (new.owners[new.bin_of(lo)],)
        yield from ((one, other) for one in former for other in later if one != other)


def _state_edges(
    moves: Iterable[BinMove], shared: Iterable[tuple[int, int]]
) -> tuple[StateEdge, ...]:
    """One edge for all bins that go from one task to another, or that two tasks share. Shared state is not moved."""
    bins: dict[tuple[int, int], int] = defaultdict(int)
    size: dict[tuple[int, int], float] = defaultdict(float)
    for move in moves:
        bins[move.source, move.target] += 1
        size[move.source, move.target] += move.size
    for pair in shared:
        bins[pair] += 1
    return tuple(
        StateEdge(
            source=source, target=target, bins=bins[source, target], size=size[source, target]
        )
        for source, target in sorted(bins)
    )


def _touched(state: Iterable[StateEdge]) -> frozenset[int]:
    """Tasks whose state changes: they give some, get some, or write it anew. State invariance holds for all others."""
    return frozenset(task for edge in state for task in (edge.source, edge.target))


def _transfers(state: Iterable[StateEdge], among: set[int]) -> Transfers:
    out: dict[int, set[int]] = defaultdict(set)
    for edge in state:
        if edge.source != edge.target and {edge.source, edge.target} <= among:
            out[edge.source].add(edge.target)
    return {source: frozenset(targets) for source, targets in out.items()}


def _acyclic(tasks: set[int], transfers: Transfers) -> frozenset[int]:
    """As many of the tasks as can merge without a cycle of transfers among them: no further one could."""
    from networkx import DiGraph, strongly_connected_components

    graph = DiGraph([(task, other) for task, others in transfers.items() for other in others])
    graph.add_nodes_from(tasks)
    merged: set[int] = set()
    for component in strongly_connected_components(graph):
        if len(component) == 1:
            merged |= component
        else:
            merged |= _within_component(sorted(component), graph.succ, graph.pred)
    return frozenset(merged)


def _within_component(tasks: Sequence[int], after: Neighbours, before: Neighbours) -> set[int]:
    merged: set[int] = set()
    for task in tasks:
        if not _closes_cycle(task, after, before, merged):
            merged.add(task)
    return merged


def _closes_cycle(task: int, after: Neighbours, before: Neighbours, merged: set[int]) -> bool:
    """Whether state can go from a task through merged ones back to it: a search from both ends, the smaller first."""
    ahead = {other for other in after[task] if other in merged}
    back = {other for other in before[task] if other in merged}
    seen_ahead, seen_back = set(ahead), set(back)
    while ahead and back and not seen_ahead & back and not seen_back & ahead:
        if len(ahead) <= len(back):
            ahead = {n for one in ahead for n in after[one] if n in merged} - seen_ahead
            seen_ahead |= ahead
        else:
            back = {n for one in back for n in before[one] if n in merged} - seen_back
            seen_back |= back
    return bool(ahead and back)


def _mergeable(channels: Channels, old: Configuration, new: Configuration) -> frozenset[str]:
    """Operators whose tasks can merge as far as channels are concerned: all, unless a dataflow turns around."""
    from networkx import DiGraph, contracted_nodes, is_directed_acyclic_graph

    both = [name for name in old.operators if name in new.operators]
    sides = (("old", channels.before, old), ("new", channels.after, new))
    edges = [
        ((upstream, side), (name, side))
        for side, upstreams, configuration in sides
        for name in configuration.operators
        for upstream in upstreams.get(name, ())
    ]
    if is_directed_acyclic_graph(DiGraph([(one[0], other[0]) for one, other in edges])):
        return frozenset(both)
    graph = DiGraph(edges)
    stateful = [
        name for name in both if old.operators[name].routing and new.operators[name].routing
    ]
    graph.add_edges_from(((name, "old"), (name, "new")) for name in stateful)
    merged: set[str] = set()
    for name in both:
        graph.add_nodes_from(((name, "old"), (name, "new")))
        if not comparable(old.operators[name], new.operators[name]):
            continue
        closer = contracted_nodes(graph, (name, "old"), (name, "new"), self_loops=False)
        if is_directed_acyclic_graph(closer):
            graph = closer
            merged.add(name)
    return frozenset(merged)
