"""How many cores an application had, by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.profiling.diagnosis.schedule import Floats, Ints
from rechannel.profiling.diagnosis.task_table import TaskTable
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.driver import task_cpus


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capacity:
    """When cores come and go."""

    times: Floats
    """At which it changes, Unix ms; 0 for those that are there from the beginning."""
    changes: Floats
    """By how much."""

    @classmethod
    def of(cls, app: Application, table: TaskTable) -> Capacity:
        """Return the cores of all executors; of unknown ones, as many as worked at the same time."""
        each = task_cpus(app)
        events = []
        for executor in app.executors.values():
            cores = max(1, executor.cores // each)
            events.append((executor.added, cores))
            if executor.removed > executor.added:
                events.append((executor.removed, -cores))
        number = app.tasks.executors
        unknown = [number[name] for name in number if name not in app.executors]
        events += [(0, busiest) for busiest in _busiest(table, unknown)]
        events.sort()
        return cls(
            times=np.array([time for time, _ in events], dtype=np.float64),
            changes=np.array([cores for _, cores in events], dtype=np.float64),
        )

    @property
    def most(self) -> float:
        """The most cores that there were at any time."""
        return float(np.cumsum(self.changes).max(initial=0.0))

    def at(self, time: float) -> float:
        """Return how many cores there were at a time, Unix ms."""
        return float(self.changes[: np.searchsorted(self.times, time, side="right")].sum())

    def peak(self, start: float, end: float) -> float:
        """Return the most cores that there were at any time in a span, Unix ms."""
        level = np.concatenate([[0.0], np.cumsum(self.changes)])
        first, last = np.searchsorted(self.times, [start, end], side="right")
        return float(level[first : last + 1].max())

    def within(self, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Floats:
        """Return how many core milliseconds there were in each span of time, Unix ms."""
        return self._before(ends) - self._before(starts)

    def mean(self, start: float, end: float) -> float:
        """Return how many cores there were on average in a span of time, Unix ms; 1 at least."""
        return max(1.0, float(self.within(start, end)) / max(1.0, end - start))

    def _before(self, times: npt.ArrayLike) -> Floats:
        """Return how many core milliseconds there were until some times."""
        until = np.asarray(times, dtype=np.float64)
        edges = np.concatenate([[0.0], self.times])
        level = np.concatenate([[0.0], np.cumsum(self.changes)])
        sums = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(edges))])
        last = np.searchsorted(self.times, until, side="right")
        found: Floats = sums[last] + level[last] * (until - edges[last])
        return found

    @property
    def first(self) -> float:
        """When the first cores were there."""
        return float(self.times[0]) if len(self.times) else 0.0

    def steps(self, groups: Floats) -> tuple[Ints, Floats]:
        """Return when cores come and go in each group, as `Schedule.step` and `Schedule.steps`.

        groups: starts and ends, Unix ms. Shape (groups, 2).
        """
        level = np.concatenate([[0.0], np.cumsum(self.changes)])
        begin = np.searchsorted(self.times, groups[:, 0], side="right")
        end = np.maximum(begin, np.searchsorted(self.times, groups[:, 1], side="left"))
        offsets = np.cumsum([0, *(end - begin + 1).tolist()], dtype=np.int64)
        steps = np.zeros((int(offsets[-1]), 2))
        for g, (first, last) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
            rows = steps[offsets[g] : offsets[g + 1]]
            rows[0, 1] = level[first]
            rows[1:, 0] = self.times[first:last] - groups[g, 0]
            rows[1:, 1] = self.changes[first:last]
        return offsets, steps


def _busiest(table: TaskTable, executors: Sequence[int]) -> list[int]:
    """Return how many tasks ran at the same time, by executor."""
    if not executors:
        return []
    mine = np.flatnonzero(np.isin(table.executor, executors))
    who = np.tile(table.executor[mine], 2)
    time = np.concatenate([table.launch[mine], table.launch[mine] + table.durations[mine]])
    change = np.repeat([1, -1], len(mine))
    # At one time, tasks end before others begin.
    order = np.lexsort((change, time, who))
    running = np.cumsum(change[order])
    found = np.zeros(max(executors) + 1, dtype=np.int64)
    np.maximum.at(found, who[order], running)
    return [max(1, int(found[executor])) for executor in executors]
