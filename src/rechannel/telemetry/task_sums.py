"""Sums over the tasks of several timesteps, kept as timesteps are committed, so that a window reads differences. Pure.

As long as every operator has the same tasks in every timestep, each timestep has what each task received and took since
these tasks are there, before it and with it. The sums of a window are those with its last timestep, less those before
its first. Of the single tasks of an operator, all are kept where they are few; many become a few points
(`task_points.py`), which are cheap to keep, and to fit a line through. All arrays have the tasks of all operators in a
row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from rechannel.telemetry.task_points import GROUPS, TAKEN, Floats, middle_of, points_of_tasks

if TYPE_CHECKING:
    from rechannel.telemetry.recent_tasks import OperatorTasks


Ints: TypeAlias = npt.NDArray[np.int_]


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
    points: Floats
    """Rows and milliseconds of cores, shape (2, points): of each operator its tasks, or `GROUPS` points that stand for
    `TAKEN` tasks or more."""


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
    points: Floats
    """Rows and milliseconds of cores of tasks in single timesteps, or of what stands for them, shape (2, points)."""
    points_ends: tuple[int, ...]
    """By operator, where its points end among those."""


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
        points=_points(list(columns)),
    )


def _points(columns: Sequence[OperatorTasks]) -> Floats:
    """Return what stands for the tasks of all operators, shape (2, points)."""
    points = [np.stack([each.rows, each.core_ms]) for each in columns]
    many = [place for place, each in enumerate(columns) if len(each.rows) >= TAKEN]
    if many:
        stand = points_of_tasks(*zip(*(points[place] for place in many), strict=True))
        for place, of in zip(many, stand.swapaxes(0, 1), strict=True):
            points[place] = of
    return np.concatenate(points, axis=1)


def summed(timesteps: Sequence[TaskSums | None]) -> Summed | None:
    """Return what all operators did in some timesteps; None if the tasks are not the same, or a timestep is missing.

    Of an operator with `TAKEN` tasks or more, points stand for those of all timesteps; of any other, all tasks stay.
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
    layout = _layout(last.ends, len(there))
    stacked = np.array([each.points for each in there])
    return Summed(
        names=last.names,
        ends=last.ends,
        rows=rows,
        busy_s=busy_s,
        totals=tuple(totals.tolist()),
        most=_most(rows, last.ends),
        core_ms=float(core_ms.sum()),
        points=layout.of(stacked),
        points_ends=layout.ends,
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
    by_task = np.bincount(places, rows).astype(np.float64, copy=False)
    points_ends = tuple(accumulate(sum(len(e.rows) for e in each) for each in columns))
    return Summed(
        names=names,
        ends=ends,
        rows=by_task,
        busy_s=np.bincount(places, busy_ms) / 1e3,
        totals=tuple(np.add.reduceat(by_task, (0, *ends[:-1])).tolist()),
        most=_most(by_task, ends),
        core_ms=float(core_ms.sum()),
        points=np.stack([rows, core_ms]),
        points_ends=points_ends,
    )


def _most(rows: Floats, ends: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(np.maximum.reduceat(rows, (0, *ends[:-1])).tolist())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layout:
    """Where the points of a window come from."""

    many: Ints
    """Which points of a timestep stand for many tasks."""
    places: Ints | None
    """Where each point of the window lies in a row of those that stand for many tasks in all timesteps, and of the
    tasks of the other operators, one timestep after the other; None = unchanged."""
    few: Ints
    """Which points of a timestep are tasks."""
    ends: tuple[int, ...]
    """By operator, where its points end."""

    def of(self, points: Floats) -> Floats:
        """Return the points of a window, shape (2, points). points: shape (timesteps, 2, points)."""
        if self.places is None:
            return middle_of(points)
        stand = middle_of(points[:, :, self.many])
        tasks = points[:, :, self.few].swapaxes(0, 1).reshape(2, -1)
        return np.concatenate([stand, tasks], axis=1).take(self.places, axis=1)


@lru_cache(maxsize=32)
def _layout(ends: tuple[int, ...], timesteps: int) -> _Layout:
    """Return the layout of a window. ends: by operator, where its tasks end in a row of all."""
    counts = [end - start for start, end in zip((0, *ends[:-1]), ends, strict=True)]
    stand = np.repeat(
        [count >= TAKEN for count in counts],
        [GROUPS if count >= TAKEN else count for count in counts],
    )
    many, few = np.flatnonzero(stand), np.flatnonzero(~stand)
    rest = len(many) + np.arange(timesteps * len(few)).reshape(timesteps, -1)
    places, at_many, at_few = list[Ints](), 0, 0
    for count in counts:
        if count >= TAKEN:
            places.append(np.arange(at_many, at_many + GROUPS))
            at_many += GROUPS
        else:
            places.append(rest[:, at_few : at_few + count].ravel())
            at_few += count
    return _Layout(
        many=many,
        few=few,
        places=np.concatenate(places) if len(few) else None,
        ends=tuple(accumulate(len(each) for each in places)),
    )
