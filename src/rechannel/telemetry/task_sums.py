"""Sums over the tasks of several timesteps, kept as timesteps are committed, so that a window reads differences. Pure.

As long as every operator has the same tasks in every timestep, each timestep has what each task received and took since
these tasks are there. The sums of a window are those of its last timestep, less those of its first, plus what happened
in the first. Of the single tasks, a few of every operator are picked, others in each timestep. All arrays have the
tasks of all operators in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rechannel.telemetry.recent_tasks import Floats, OperatorTasks

PICKED = 96
"""Tasks of an operator that are picked in one timestep."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskSums:
    """What the tasks did since they are these tasks, until the end of one timestep."""

    names: tuple[str, ...]
    ends: tuple[int, ...]
    """By operator, where its tasks end in a row of all."""
    timesteps: int
    """Since then, this one included."""
    since: int
    """The first of them."""
    own: Floats
    """Rows and busy milliseconds of this timestep, shape (2, tasks)."""
    all: Floats
    """The same over all of them."""
    core_ms: Floats
    """Milliseconds of cores in this timestep, shape (operators,)."""
    picked: Floats
    """Rows and milliseconds of cores of up to `PICKED` tasks of each operator, shape (2, picked)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summed:
    """What the tasks of one operator did in a window."""

    rows: Floats
    """By task, shape (tasks,)."""
    busy_s: Floats
    """Seconds in its function, by task."""
    total: float
    """Rows of all tasks."""
    most: float
    """Rows of the task with the most."""
    core_ms: float
    """Milliseconds of cores of all tasks."""
    picked: Floats
    """Rows and milliseconds of cores of some tasks in single timesteps, shape (2, picked)."""


def with_timestep(
    before: TaskSums | None, timestep: int, operators: Mapping[str, OperatorTasks]
) -> TaskSums | None:
    """Return the sums with one more timestep; None if the tasks of an operator are not numbered from 0, without gaps.

    before: those of the latest timestep.
    """
    counts = [len(each.numbers) for each in operators.values()]
    if not counts or any(each.numbers[-1] != len(each.numbers) - 1 for each in operators.values()):
        return None
    columns = operators.values()
    own = np.stack(
        [np.concatenate([e.rows for e in columns]), np.concatenate([e.busy_ms for e in columns])]
    )
    names, ends = tuple(operators), tuple(np.cumsum(counts).tolist())
    same = (
        before is not None
        and (before.names, before.ends) == (names, ends)
        and before.since + before.timesteps == timestep
    )
    return TaskSums(
        names=names,
        ends=ends,
        timesteps=before.timesteps + 1 if before is not None and same else 1,
        since=before.since if before is not None and same else timestep,
        own=own,
        all=before.all + own if before is not None and same else own,
        core_ms=np.array([each.core_ms.sum() for each in columns]),
        picked=np.concatenate([_picked(each, timestep) for each in columns], axis=1),
    )


def _picked(columns: OperatorTasks, timestep: int) -> Floats:
    """Return rows and milliseconds of cores of some tasks at equal distances, beginning elsewhere in each timestep."""
    count = len(columns.rows)
    places = np.arange(count)
    if count > PICKED:
        places = (np.arange(PICKED) * count // PICKED + timestep) % count
    return np.stack([columns.rows[places], columns.core_ms[places]])


def summed(sums: Sequence[TaskSums | None]) -> dict[str, Summed] | None:
    """Return what each operator did in some timesteps; None if the tasks are not the same, or a timestep is missing."""
    first, last = sums[0], sums[-1]
    if first is None or last is None or first.since != last.since:
        return None
    if last.timesteps - first.timesteps + 1 != len(sums):
        return None
    there = [each for each in sums if each is not None]
    within = last.all - first.all
    within += first.own
    np.maximum(within, 0.0, out=within)  # sums of milliseconds are rounded
    within[1] /= 1e3
    picked = np.stack([each.picked for each in there], axis=1)
    starts = (0, *last.ends[:-1])
    firsts = (0, *accumulate(min(b - a, PICKED) for a, b in zip(starts, last.ends, strict=True)))
    totals = np.add.reduceat(within[0], starts).tolist()
    most = np.maximum.reduceat(within[0], starts).tolist()
    core = np.sum([each.core_ms for each in there], axis=0).tolist()
    return {
        name: Summed(
            rows=within[0, start:end],
            busy_s=within[1, start:end],
            total=totals[place],
            most=most[place],
            core_ms=core[place],
            picked=picked[:, :, firsts[place] : firsts[place + 1]].reshape(2, -1),
        )
        for place, (name, start, end) in enumerate(zip(last.names, starts, last.ends, strict=True))
    }
