"""How much shorter a run could get at most if a finding cost nothing.

All transient critical paths of a window are as long as the window. If some edges took no time, the
window would be as long as the longest of these paths then is: shorter by the least that any of
them spends on those edges. Paths that are not critical now are no longer than that. This bounds
what the change alone can win within each window; it does not include windows that would begin
earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.findings import STRAGGLING, Finding, cause_of
from rechannel.profiling.model.paths import least
from rechannel.profiling.model.pieces import Piece, Pieces
from rechannel.profiling.model.summaries import MapPieces
from rechannel.profiling.model.window_graph import WindowGraph


def saved(graph: WindowGraph, edges: npt.NDArray[np.bool_]) -> int:
    """Return how many ns shorter a window could be at most if some edges took no time.

    edges: which ones, shape (edges,).
    """
    return least(graph, np.where(edges, graph.weight, 0)) or 0


def with_gains(found: Sequence[Finding], pieces: Pieces, each: MapPieces = map) -> list[Finding]:
    """Return the findings with their gains. each: applies a function to all pieces."""
    if not found:
        return []
    length = sum(end - start for start, end in pieces.windows)
    won = sum(each(partial(_won, found), pieces), start=np.zeros(len(found), dtype=np.int64))
    return [replace(one, gain=float(ns) / length) for one, ns in zip(found, won, strict=True)]


def _won(found: Sequence[Finding], piece: Piece) -> npt.NDArray[np.int64]:
    """Return how many ns shorter the windows of a piece could be at most, by finding."""
    names = piece.trace.names
    causes = np.array([cause_of(kind) for kind in names.kinds])
    workers = list(names.workers)
    won = np.zeros(len(found), dtype=np.int64)
    for _, graph in piece.graphs():
        for i, finding in enumerate(found):
            if finding.cause == STRAGGLING:
                mine = (graph.worker == workers.index(finding.worker)) & (
                    graph.peer == graph.worker
                )
            else:
                mine = causes[graph.kind] == finding.cause
            won[i] += saved(graph, mine)
    return won
