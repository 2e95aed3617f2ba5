"""How much shorter a run could get at most if what stands out cost nothing.

All transient critical paths of a window are as long as the window. If some edges took no time, the window would be as
long as the longest of these paths then is: shorter by the least that any of them spends on those edges. Other paths
that are not critical now are no longer than that. It is a bound on what this alone can win within windows; what begins
earlier in one window because of another is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rechannel.profiling.paths import least
from rechannel.profiling.snapshot import Snapshot
from rechannel.profiling.trace import Names
from rechannel.profiling.verdict import STRAGGLING, Finding, cause_of


def saved(graph: Snapshot, edges: npt.NDArray[np.bool_]) -> int:
    """ns that a window would be shorter at most if some edges took no time. Shape (edges,)."""
    return least(graph, np.where(edges, graph.weight, 0)) or 0


def with_gains(found: Sequence[Finding], graphs: Iterable[Snapshot], names: Names) -> list[Finding]:
    """Findings that say how much shorter the run could get."""
    causes = np.array([cause_of(kind) for kind in names.kinds])
    workers = list(names.workers)
    won, length = np.zeros(len(found), dtype=np.int64), 0
    for graph in graphs if found else ():
        length += graph.end - graph.start
        for i, finding in enumerate(found):
            if finding.cause == STRAGGLING:
                mine = (graph.worker == workers.index(finding.who)) & (graph.peer == graph.worker)
            else:
                mine = causes[graph.kind] == finding.cause
            won[i] += saved(graph, mine)
    return [replace(each, gain=float(ns) / length) for each, ns in zip(found, won, strict=True)]
