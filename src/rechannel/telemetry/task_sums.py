"""Sums over the tasks of several timesteps, kept as timesteps are committed, so that a window reads differences. Pure.

As long as every operator has the same tasks in every timestep, each timestep has what each task received and took since
these tasks are there, before it and with it. The sums of a window are those with its last timestep, less those before
its first. Of the single tasks, a few of every operator are picked, others in each timestep. All arrays have the tasks
of all operators in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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
    before: Floats
    """Rows and busy milliseconds until this timestep began, shape (2, tasks)."""
    after: Floats
    """The same until its end."""
    totals: Floats
    """Rows and milliseconds of cores in this timestep, shape (2, operators)."""
    picked: Floats
    """Rows and milliseconds of cores of up to `PICKED` tasks of each operator, shape (2, picked)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summed:
    """What the tasks of all operators did in a window."""

    names: tuple[str, ...]
    ends: tuple[int, ...]
    """By operator, where its tasks end in a row of all."""
    rows: Floats
    """By task, shape (tasks,)."""
    busy_s: Floats
    """Seconds in its function, by task."""
    totals: tuple[float, ...]
    """Rows of all tasks, by operator."""
    most: tuple[float, ...]
    """Rows of the task with the most, by operator."""
    core_ms: float
    """Milliseconds of cores of all tasks of all operators."""
    picked: Floats
    """Rows and milliseconds of cores of some tasks in single timesteps, shape (2, picked)."""
    picked_ends: tuple[int, ...]
    """By operator, where its tasks end among those."""


def with_timestep(
    sums: TaskSums | None, timestep: int, operators: Mapping[str, OperatorTasks]
) -> TaskSums | None:
    """Return the sums with one more timestep; None if the tasks of an operator are not numbered from 0, without gaps.

    sums: those of the latest timestep.
    """
    columns = operators.values()
    counts = [len(each.numbers) for each in columns]
    if not counts or any(each.numbers[-1] != len(each.numbers) - 1 for each in columns):
        return None
    own = np.stack(
        [np.concatenate([e.rows for e in columns]), np.concatenate([e.busy_ms for e in columns])]
    )
    names, ends = tuple(operators), tuple(accumulate(counts))
    if sums is not None and (
        (sums.names, sums.ends) != (names, ends) or sums.since + sums.timesteps != timestep
    ):
        sums = None
    before = np.zeros_like(own) if sums is None else sums.after
    return TaskSums(
        names=names,
        ends=ends,
        timesteps=1 if sums is None else sums.timesteps + 1,
        since=timestep if sums is None else sums.since,
        before=before,
        after=before + own,
        totals=np.array([[e.rows.sum(), e.core_ms.sum()] for e in columns]).T,
        picked=np.concatenate([_picked(each, timestep) for each in columns], axis=1),
    )


def _picked(columns: OperatorTasks, timestep: int) -> Floats:
    """Return rows and milliseconds of cores of some tasks at equal distances, beginning elsewhere in each timestep."""
    count = len(columns.rows)
    places = np.arange(count)
    if count > PICKED:
        places = (np.arange(PICKED) * count // PICKED + timestep) % count
    return np.stack([columns.rows[places], columns.core_ms[places]])


def summed(timesteps: Sequence[TaskSums | None]) -> Summed | None:
    """Return what all operators did in some timesteps; None if the tasks are not the same, or a timestep is missing.

    Of an operator, up to `PICKED` of the tasks that were picked stay, at equal distances.
    """
    first, last = timesteps[0], timesteps[-1]
    if first is None or last is None or first.since != last.since:
        return None
    if last.timesteps - first.timesteps + 1 != len(timesteps):
        return None
    there = [each for each in timesteps if each is not None]
    rows, busy_s = last.after - first.before
    busy_s /= 1e3
    totals, core_ms = np.add.reduce([each.totals for each in there])
    places, picked_ends = _places(last.ends, len(there))
    return Summed(
        names=last.names,
        ends=last.ends,
        rows=rows,
        busy_s=busy_s,
        totals=tuple(totals.tolist()),
        most=_most(rows, last.ends),
        core_ms=float(core_ms.sum()),
        picked=np.concatenate([each.picked for each in there], axis=1).take(places, axis=1),
        picked_ends=picked_ends,
    )


def added_up(timesteps: Sequence[Mapping[str, OperatorTasks]]) -> Summed:
    """Return what all operators did in timesteps whose tasks are not the same, by adding up each task."""
    names = tuple(dict.fromkeys(name for operators in timesteps for name in operators))
    columns = [[each[name] for each in timesteps if name in each] for name in names]
    ends = tuple(accumulate(1 + max(int(e.numbers[-1]) for e in each) for each in columns))
    row = [
        (each, start)
        for alike, start in zip(columns, (0, *ends[:-1]), strict=True)
        for each in alike
    ]
    places = np.concatenate([each.numbers + start for each, start in row]).astype(np.int64)
    rows, busy_ms, core_ms = (
        np.concatenate([getattr(each, column) for each, _ in row])
        for column in ("rows", "busy_ms", "core_ms")
    )
    by_task = np.bincount(places, rows)
    picked_ends = tuple(accumulate(sum(len(e.rows) for e in each) for each in columns))
    return Summed(
        names=names,
        ends=ends,
        rows=by_task,
        busy_s=np.bincount(places, busy_ms) / 1e3,
        totals=tuple(np.add.reduceat(by_task, (0, *ends[:-1])).tolist()),
        most=_most(by_task, ends),
        core_ms=float(core_ms.sum()),
        picked=np.stack([rows, core_ms]),
        picked_ends=picked_ends,
    )


def _most(rows: Floats, ends: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(np.maximum.reduceat(rows, (0, *ends[:-1])).tolist())


@lru_cache(maxsize=32)
def _places(ends: tuple[int, ...], timesteps: int) -> tuple[npt.NDArray[np.int_], tuple[int, ...]]:
    """Return where the picked tasks of a window lie in a row of those of its timesteps, and where operators end.

    The row has one timestep after the other; the places are those of one operator after the other.
    """
    counts = [min(end - start, PICKED) for start, end in zip((0, *ends[:-1]), ends, strict=True)]
    row = np.arange(timesteps * sum(counts)).reshape(timesteps, -1)
    places = []
    for own in np.split(row, np.cumsum(counts)[:-1], axis=1):
        count = min(own.size, PICKED)
        places.append(own.ravel()[np.arange(count) * own.size // count])
    return np.concatenate(places), tuple(accumulate(len(each) for each in places))
