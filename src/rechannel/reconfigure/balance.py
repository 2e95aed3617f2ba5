"""Which task should own which bin: targets that even out load and move as little as that takes. Pure.

Two questions, two answers. Another *number* of tasks: every task gets its share of the hash space, and keeps what it
has up to that share. Another *load* with the same tasks: bins go from the busiest task to the idlest until no task is
far above the mean; each move is the one that balances the pair best.

A spread bin stays where it is: its load counts in equal parts for the tasks that share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing

Weights = npt.NDArray[np.float64]
"""Load of every bin, shape (bins,), any unit."""


def widths(routing: Routing) -> Weights:
    """Share of the hash space of every bin, shape (bins,), summing to 1.

    Approximates load, because hashes are uniform.
    """
    edges = np.array([*routing.starts, SPACE], dtype=np.float64)
    wide: Weights = np.diff(edges) / SPACE
    return wide


def load_of_tasks(routing: Routing, weights: Weights) -> Weights:
    """Load of every task, shape (tasks,)."""
    owners = np.asarray(routing.owners, dtype=np.int64)
    load = np.bincount(owners, weights=weights, minlength=routing.tasks).astype(np.float64)
    for spread in routing.spreads:
        heat = float(weights[routing.bin_of(spread.lo)])
        load[spread.tasks[0]] -= heat
        load[list(spread.tasks)] += heat / len(spread.tasks)
    return load


def rescaled(routing: Routing, tasks: int) -> Routing:
    """The same bins over another number of tasks. Raises ValueError if a spread bin has tasks that go.

    No bin moves that could stay. If bins are equally wide, tasks end with equal numbers of them, or one more.
    """
    owners = routing.owners
    shares = _shares(routing, tasks, widths(routing))
    wide, room = widths(routing).tolist(), shares.tolist()
    placed = [-1] * routing.bins
    spread = _spread_bins(routing)
    for number, (owner, width) in enumerate(zip(owners, wide, strict=True)):
        if owner < tasks and (room[owner] >= width / 2 or number in spread):
            placed[number] = owner
            room[owner] -= width
    left = np.array(room)
    for number in [number for number, task in enumerate(placed) if task < 0]:
        # To the task that took the bin before it, if there is room: neighbours stay together.
        task = int(np.argmax(left))
        before = placed[number - 1] if number else -1
        if before >= 0 and before != owners[number] and left[before] >= wide[number] / 2:
            task = before
        placed[number] = task
        left[task] -= wide[number]
    return replace(routing, owners=tuple(placed), tasks=tasks)


def evened(routing: Routing) -> Routing:
    """Like `rescaled` with the present number of tasks; unchanged if that would not make it more even."""
    even = rescaled(routing, routing.tasks)
    return even if _unevenness(even) < _unevenness(routing) * (1 - 1e-9) else routing


def _unevenness(routing: Routing) -> float:
    return float(np.square(load_of_tasks(routing, widths(routing))).sum())


def _shares(routing: Routing, tasks: int, wide: Weights) -> Weights:
    """How much of the hash space every task should own, shape (tasks,)."""
    if np.ptp(wide) > 1e-12:
        return np.full(tasks, 1.0 / tasks)
    base, extra = divmod(routing.bins, tasks)
    counts = np.bincount(routing.owners, minlength=max(tasks, routing.tasks))[:tasks]
    share = np.full(tasks, float(base))
    # The odd bins stay with the tasks that have most; a stable sort keeps the order of equal ones.
    share[np.argsort(-counts, kind="stable")[:extra]] += 1
    scaled: Weights = share * wide[0]
    return scaled


def too_hot(routing: Routing, weights: Sequence[float], tolerance: float) -> tuple[int, ...]:
    """Bins whose own load is above (1 + tolerance) times the mean of a task: no placement balances them."""
    heat = np.array(weights, dtype=np.float64)
    bound = (1.0 + tolerance) * heat.sum() / routing.tasks
    for spread in routing.spreads:
        heat[routing.bin_of(spread.lo)] /= len(spread.tasks)
    return tuple(np.flatnonzero(heat > bound).tolist())


def rebalanced(routing: Routing, weights: Sequence[float], tolerance: float) -> Routing:
    """Move bins until the busiest task is at most (1 + tolerance) times the mean, or nothing helps.

    weights: load of every bin, shape (bins,). Moving bins cannot balance one that has more than a task's share by
    itself: splitting it helps, if it holds more than one key.
    """
    heat = np.array(weights, dtype=np.float64)
    owners = np.asarray(routing.owners, dtype=np.int64).copy()
    load = load_of_tasks(routing, heat)
    bound = (1.0 + tolerance) * heat.sum() / routing.tasks
    heat[list(_spread_bins(routing))] = 0
    # Every move makes the pair more even, so the loop ends; the bound is for rounding errors.
    for _ in range(4 * routing.bins):  # pragma: no branch
        busiest, idlest = int(np.argmax(load)), int(np.argmin(load))
        gap = load[busiest] - load[idlest]
        if load[busiest] <= bound or gap <= 0:
            break
        mine = np.flatnonzero(owners == busiest)
        helps = mine[(heat[mine] > 0) & (heat[mine] < gap)]
        if len(helps) == 0:
            break
        chosen = int(helps[np.argmin(np.abs(heat[helps] - gap / 2))])
        owners[chosen] = idlest
        load[busiest] -= heat[chosen]
        load[idlest] += heat[chosen]
    return replace(routing, owners=tuple(owners.tolist()))


def _spread_bins(routing: Routing) -> frozenset[int]:
    """Numbers of the bins that several tasks share."""
    return frozenset(routing.bin_of(spread.lo) for spread in routing.spreads)
