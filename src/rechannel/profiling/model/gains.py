"""What a run would gain if something took less time: the longest path of changed windows.

A `Change` names edges of all windows, by what is common to them: an activity, a worker, an
operator, a channel. They take no time, a part of their time, or as long as those of the median
worker. The gain of a window is the length of its longest path less that with the changed edges
(`paths.longest`), so it is exact within the model stated there, and never negative. Gains of
several windows add up: everything in one of them is over before the next begins. So the gain of a
window that is a whole job is an end-to-end gain, and a job in several windows gains at least the
sum.

The longest path without a change leads through some edges of what is changed, and CP is the mean
over all of these paths. The gain of something is therefore at most its critical participation:
what is not critical gains nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.paths import Lead, longest
from rechannel.profiling.model.pieces import Piece, Pieces
from rechannel.profiling.model.summaries import MapPieces
from rechannel.profiling.model.trace import Times
from rechannel.profiling.model.window_graph import WindowGraph

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Edges that would take less time: those that have everything that is not None."""

    kinds: frozenset[int] | None = None
    operator: int | None = None
    worker: int | None = None
    """Worker at the source of an edge."""
    peer: int | None = None
    """Worker at its target."""
    messages: bool | None = None
    """Whether they are messages."""
    left: float = 0.0
    """The part of their time that they take."""
    evened: bool = False
    """Whether they take as long, instead, as those of the median worker of the same operator and
    window, if that is less."""

    def edges(self, graph: WindowGraph) -> Mask:
        """Return which edges of a window are meant. Shape (edges,)."""
        found = np.ones(len(graph.kind), dtype=np.bool_)
        if self.kinds is not None:
            meant = np.zeros(1 + max(int(graph.kind.max(initial=0)), *self.kinds, 0), np.bool_)
            meant[list(self.kinds)] = True
            found &= meant[graph.kind]
        if self.operator is not None:
            found &= graph.operator == self.operator
        if self.worker is not None:
            found &= graph.worker == self.worker
        if self.peer is not None:
            found &= graph.peer == self.peer
        if self.messages is not None:
            found &= (np.arange(len(found)) >= graph.spans) == self.messages
        return found

    def weight(self, graph: WindowGraph) -> Times:
        """Return the changed lengths of all edges of a window, ns. Shape (edges,)."""
        changed, mine = graph.weight, self.edges(graph)
        if self.evened:
            own = Change(kinds=self.kinds, messages=False).edges(graph)
            mine &= own
            if mine.any():
                changed[mine] = _evened(graph, np.flatnonzero(own))[mine]
        else:
            changed[mine] = np.rint(changed[mine] * self.left).astype(np.int64)
        return changed


def gains(changes: Sequence[Change], pieces: Pieces, each: MapPieces = map) -> list[int]:
    """Return how many ns shorter all windows together would be, by change.

    each: applies a function to all pieces.
    """
    if not changes:
        return []
    found = each(partial(_gained, tuple(changes)), pieces)
    whole: Times = sum(found, start=np.zeros(len(changes), dtype=np.int64))
    return [int(ns) for ns in whole]


def gain(graph: WindowGraph, weight: Times, lead: Lead | None = None) -> int:
    """Return how many ns shorter a window would be if its edges were as long as given."""
    lead = Lead.of(graph) if lead is None else lead
    return longest(graph, graph.weight, lead) - longest(graph, weight, lead)


def _gained(changes: Sequence[Change], piece: Piece) -> Times:
    """Return how many ns shorter the windows of a piece would be, by change."""
    found = np.zeros(len(changes), dtype=np.int64)
    for _, graph in piece.graphs():
        lead, weight = Lead.of(graph), graph.weight
        now = longest(graph, weight, lead)
        for i, change in enumerate(changes):
            changed = change.weight(graph)
            if (changed < weight).any():
                found[i] += now - longest(graph, changed, lead)
    return found


def _evened(graph: WindowGraph, edges: Times) -> Times:
    """Return lengths of all edges if no worker spent more time on the given ones of an operator
    than the median of those workers that have some, ns. Shape (edges,).
    """
    changed = graph.weight
    width = int(graph.worker.max(initial=0)) + 1
    whose = (graph.operator[edges].astype(np.int64) + 1) * width + graph.worker[edges]
    groups, group = np.unique(whose, return_inverse=True)
    spent = np.bincount(group, changed[edges], minlength=len(groups))
    operator = groups // width
    order = np.lexsort((spent, operator))
    first = np.flatnonzero(np.diff(operator[order], prepend=-1))
    count = np.diff(np.append(first, len(order)))
    ranked = spent[order]
    middle = (ranked[first + (count - 1) // 2] + ranked[first + count // 2]) / 2
    most = np.repeat(middle, count)[np.argsort(order)]
    share = np.minimum(1.0, most / np.maximum(spent, 1.0))
    changed[edges] = np.rint(changed[edges] * share[group]).astype(np.int64)
    return changed
