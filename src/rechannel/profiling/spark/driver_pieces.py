"""What the driver did from one event to the next: launches and ends of tasks, and what `driver.py`
knows. Blocks of tasks come in the order of time.

- The driver waits if it continues with the end of a task; ends of attempts that were killed do not
  count, because nothing waits for them. While a job is running, it waits as well if the next launch
  or end is an end, whatever comes before: an executor, or another job.
- It waits for executors if all cores are busy, and the next launch is one for which there was no
  core yet.
- It waits for a copy if the next launch is that of a speculative copy: no task was left to launch,
  until Spark decided that one is too slow.
- Otherwise it does what the timeline says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import Times
from rechannel.profiling.spark.driver import DRIVER_KINDS, SPECULATING, WAITS, DriverTimeline
from rechannel.profiling.storage.blocks import Rows
from rechannel.profiling.storage.stored import ACTIVITY

Flags = npt.NDArray[np.bool_]

DRIVER = 0
"""The worker that is the driver."""


@dataclass(slots=True)
class DriverPieces:
    """The driver's activities, made as tasks come."""

    timeline: DriverTimeline
    waiting: int
    """Index of the kind of waiting."""
    first: int
    """Index of the first of `DRIVER_KINDS` among the kinds of the trace."""
    _times: Times = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _running: Times = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Number of tasks that ran from each of these times on."""

    @property
    def boundaries(self) -> Times:
        """Times at which the driver's activity may change, besides launches and ends of tasks."""
        return self.timeline.times[1:]

    def take(self, rows: Rows, start: int, end: int) -> Rows:
        """Return what the driver did up to the last launch or end in [start, end), ns.

        rows: all tasks that overlap it.
        """
        finished = rows["finish"][~rows["killed"]]
        events = np.concatenate([rows["launch"], finished])
        events = np.unique(events[(events >= start) & (events < end)])
        edges = self.boundaries
        times = np.union1d(events, edges[(edges >= start) & (edges < end)])
        running = np.searchsorted(np.sort(rows["launch"]), times, side="right")
        running -= np.searchsorted(np.sort(rows["finish"]), times, side="right")
        self._times = np.concatenate([self._times, times])
        self._running = np.concatenate([self._running, running])
        if not len(events):
            return np.empty(0, dtype=ACTIVITY)
        known = int(np.searchsorted(self._times, events[-1]))
        others = rows["launch"][~rows["speculative"]]
        ends = np.isin(events, finished)
        made = self._made(known, events, ends, ~ends & ~np.isin(events, others))
        self._times, self._running = self._times[known:], self._running[known:]
        return made

    def rest(self) -> Rows:
        """Return what the driver did after the last launch or end."""
        events = np.empty(0, dtype=np.int64)
        none = np.empty(0, dtype=np.bool_)
        return self._made(max(0, len(self._times) - 1), events, none, none)

    def _made(self, count: int, events: Times, ends: Flags, copies: Flags) -> Rows:
        """Return the first `count` activities.

        events: launches and ends that follow, in order. ends: which of them are ends of tasks.
        copies: which of them are launches of speculative copies only.
        """
        rows = np.empty(count, dtype=ACTIVITY)
        if not count:
            return rows
        starts, stops, running = (
            self._times[:count],
            self._times[1 : count + 1],
            self._running[:count],
        )
        line, at = self.timeline, self.timeline.at(starts)
        kind = line.kinds[at]
        if len(events):
            next_ = np.searchsorted(events, stops)
            ended = ends[next_]
            slots, later = line.slots[at], line.slots[line.at(events[next_])]
            full = line.jobs[at] & ~ended & (slots >= 0) & (running >= slots) & (later > slots)
            kind = np.where(full, DRIVER_KINDS.index(WAITS), kind)
            late = line.jobs[at] & ~full & copies[next_]
            kind = np.where(late, DRIVER_KINDS.index(SPECULATING), kind)
            waits = ended & (line.jobs[at] | (events[next_] == stops))
        else:
            waits = np.zeros(count, dtype=np.bool_)
        rows["kind"] = np.where(waits, self.waiting, kind + self.first)
        rows["worker"], rows["operator"] = DRIVER, -1
        rows["start"], rows["end"] = starts, stops
        return rows
