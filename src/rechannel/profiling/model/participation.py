"""Critical participation: the share of a window's transient critical paths that contain an edge,
times the edge's share of the window's length.

A transient critical path leads from the beginning of the window to its end; all of them are
equally long. With N paths, c(e) of which contain the edge e of length w(e): CP(e) = c(e) w(e) / (N
(t_e - t_s)). All CP of a window add up to 1 (SnailTrail, NSDI 2018, section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.paths import Paths, count_paths
from rechannel.profiling.model.window_graph import WindowGraph

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Participation:
    """Critical participation in a window."""

    graph: WindowGraph
    critical: Floats
    """CP of every edge. Shape (edges,)."""
    paths: Paths
    """The path counts from which CP follows."""

    @property
    def profile(self) -> Floats:
        """The conventional profile: the length of every edge as a share of the sum of all lengths."""
        weight = self.graph.weight
        whole = int(weight.sum())
        return weight / whole if whole else weight.astype(np.float64)

    @property
    def idle(self) -> bool:
        """Whether no path leads through the window, because every worker waited at some time."""
        return bool(self.paths.total.mantissa[0] == 0)


def participation(graph: WindowGraph) -> Participation:
    """Compute the critical participation of every edge; 0 for all edges if no path leads through."""
    paths = count_paths(graph)
    total, total_exp = float(paths.total.mantissa[0]), int(paths.total.exponent[0])
    if total == 0:
        return Participation(graph=graph, critical=np.zeros(len(graph.source)), paths=paths)
    to, on = paths.to, paths.on
    mantissa = to.mantissa[graph.source] * on.mantissa[graph.target] / total
    exponent = to.exponent[graph.source] + on.exponent[graph.target] - total_exp
    share = np.ldexp(mantissa, np.maximum(exponent, -1100).astype(np.int32))
    share[paths.left_out] = 0
    critical = share * (graph.weight / (graph.end - graph.start))
    return Participation(graph=graph, critical=critical, paths=paths)
