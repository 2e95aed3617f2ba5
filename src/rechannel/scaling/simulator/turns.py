"""How the tasks of one operator get onto cores: list scheduling. Pure.

The driver starts tasks one by one, each after `launch_ms`, and each goes to the core that is free first, the one of the
lowest number if several are (Graham, Bounds on multiprocessing timing anomalies, 1969).
"""

from __future__ import annotations

import heapq
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.scaling.model.rates import Floats

Places: TypeAlias = npt.NDArray[np.int64]


def scheduled(
    begin_ms: float, ms: Floats, launch_ms: float, free_ms: Floats, speeds: Floats
) -> tuple[Floats, Floats, Places]:
    """Return when each task starts and ends, and on which core: shape (tasks,) each.

    begin_ms: when the first may be launched. ms: of each task on a core of speed 1. free_ms, speeds: of each core.
    """
    tasks, cores = len(ms), len(free_ms)
    launched = begin_ms + launch_ms * np.arange(1.0, tasks + 1.0)
    if tasks <= cores and float(free_ms.max()) <= begin_ms:
        return launched, launched + ms / speeds[:tasks], np.arange(tasks, dtype=np.int64)
    free = [(max(at, begin_ms), core) for core, at in enumerate(free_ms.tolist())]
    heapq.heapify(free)
    starts, ends, places = np.empty(tasks), np.empty(tasks), np.empty(tasks, dtype=np.int64)
    speed = speeds.tolist()
    for task, (at, takes) in enumerate(zip(launched.tolist(), ms.tolist(), strict=True)):
        idle, core = free[0]
        start = at if at > idle else idle
        end = start + takes / speed[core]
        heapq.heapreplace(free, (end, core))
        starts[task], ends[task], places[task] = start, end, core
    return starts, ends, places
