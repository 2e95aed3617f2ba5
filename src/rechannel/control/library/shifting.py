"""Which task should own which bin where executors are not equally fast. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rechannel.control.library.binding import Floats
from rechannel.model.buffers import IntArray
from rechannel.model.routing import Routing
from rechannel.reconfigure.balance import load_of_tasks

TINY_ROWS = 1e-6
"""A smaller difference counts as zero."""


def evened(routing: Routing, weights: Floats, at: IntArray, per_row: Floats) -> Routing:
    """Return bins moved until no move makes the executor that takes longest faster.

    weights: rows by bin, shape (bins,). at: executor of each task, shape (tasks,). per_row: time of a row on each
    executor with nothing else to do, shape (executors,).
    """
    owners = np.asarray(routing.owners, dtype=np.int64).copy()
    fixed = {routing.bin_of(each.lo) for each in routing.spreads}
    free = np.array(
        [n for n in range(routing.bins) if weights[n] > 0 and n not in fixed], dtype=np.int64
    )
    load = np.bincount(at, load_of_tasks(routing, weights), minlength=len(per_row)).astype(
        np.float64
    )
    tasks = np.bincount(owners, weights, minlength=routing.tasks)
    for _ in range(2 * routing.bins):
        slowest = int((load * per_row).argmax())
        mine = free[at[owners[free]] == slowest]
        if not len(mine):
            break
        after = (load[None, :] + weights[mine, None]) * per_row
        after[:, slowest] = np.inf
        after[:, np.setdiff1d(np.arange(len(per_row)), at)] = np.inf
        worst = np.maximum(after, ((load[slowest] - weights[mine]) * per_row[slowest])[:, None])
        chosen, to = np.unravel_index(int(worst.argmin()), worst.shape)
        if worst[chosen, to] >= load[slowest] * per_row[slowest] - TINY_ROWS:
            break
        bin_ = int(mine[chosen])
        there = np.flatnonzero(at == to)
        task = int(there[tasks[there].argmin()])
        tasks[owners[bin_]] -= weights[bin_]
        tasks[task] += weights[bin_]
        load[slowest] -= weights[bin_]
        load[to] += weights[bin_]
        owners[bin_] = task
    return replace(routing, owners=tuple(owners.tolist()))
