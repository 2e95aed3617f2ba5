"""The core of its executor on which each task ran, which no log says. One pass in time.

A task takes the core with its number (its index in the stage, modulo the number of cores), so that
the same part of the data is on the same core in every batch. If that core is busy, the task takes
the one that was freed last before it arrived, as in SnailTrail's adapter. If all are busy, it takes
one whose task may have arrived, and left, a little sooner; else an extra one.

A core is free before the log has the end of its task: so the driver has that end at the launch of
the next task on that core, if it is not earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import Times
from rechannel.profiling.spark.driver_pieces import DriverPieces
from rechannel.profiling.spark.rows import KEPT, PLACED_ROW, TaskRows, leaving, placed
from rechannel.profiling.storage.blocks import BLOCK_ROWS, RowBlocks, Rows
from rechannel.profiling.storage.stored import activity_blocks

SPARE = 64
"""Extra cores that an executor may have."""
MOST_SPARE = 1 << 22
"""Extra cores of all executors together."""

_NEVER = -(1 << 62)


@dataclass(slots=True)
class ExecutorCores:
    """Cores of executors, and which of them tasks have used."""

    known: npt.NDArray[np.int64]
    """Number of cores of each executor."""
    used: npt.NDArray[np.int64] = field(init=False)
    """Number of cores that worked."""
    crowded: int = 0
    """Number of tasks that found no free core."""
    _first: npt.NDArray[np.int64] = field(init=False)
    """Place of every executor's first core in `_free`, and the end."""
    _free: npt.NDArray[np.int64] = field(init=False)
    """When every core becomes free."""

    def __post_init__(self) -> None:
        """Begin with all cores free."""
        count = len(self.known)
        spare = max(1, min(SPARE, MOST_SPARE // max(1, count)))
        self.used = np.zeros(count, dtype=np.int64)
        self._first = np.concatenate([[0], np.cumsum(self.known + spare)])
        self._free = np.full(self._first[-1], _NEVER, dtype=np.int64)

    def place(self, rows: Rows) -> None:
        """Assign cores to tasks; they must be later than those of all previous calls."""
        order = np.argsort(rows["arrive"], kind="stable")
        late = rows["arrive"] - rows["launch"]
        columns = tuple(
            np.ascontiguousarray(column[order])
            for column in (rows["executor"], rows["index"], rows["arrive"], leaving(rows), late)
        )
        places = (self._first, self._free)
        core, before, more = _placed(columns, self.known, places, self.used)
        rows["core"][order] = core
        rows["arrive"][order] = columns[2]
        self.crowded += more
        _meet(rows, order[before >= 0], order[before[before >= 0]])


@nb.njit(cache=True, nogil=True)
def _placed(tasks: Any, known: Any, places: Any, used: Any) -> Any:  # pragma: no cover - compiled
    """Return the core of every task, which task used it before (-1 if that is not one of these, or
    has not left it), and how many needed an extra core. places: the first core of every executor,
    and when cores become free. That and used are updated in place.

    How long a task waited on its way, and how long its result did, is an assumption. If all cores
    are busy, and the one that is free next would be free if its task had arrived sooner, that task
    did: arrive and leave are updated in place, too.
    """
    executor, index, arrive, leave, slack = tasks
    first, all_free = places
    count, more = len(executor), 0
    core = np.empty(count, dtype=np.int32)
    before = np.full(count, -1, dtype=np.int64)
    latest = np.full(len(all_free), -1, dtype=np.int64)
    for i in range(count):
        e = executor[i]
        free = all_free[first[e] : first[e + 1]]
        best = index[i] % known[e]
        if free[best] > arrive[i]:
            best = -1
            for c in range(known[e]):
                if free[c] <= arrive[i] and (best < 0 or free[c] > free[best]):
                    best = c
            for c in range(known[e], used[e] if best < 0 else 0):
                if free[c] <= arrive[i] and (best < 0 or free[c] > free[best]):
                    best = c
        if best < 0:
            soon = np.argmin(free[: known[e]])
            last, missing = latest[first[e] + soon], free[soon] - arrive[i] + 1
            if last >= 0 and leave[last] == free[soon] and missing <= slack[last]:
                best = soon
                for column in (arrive, leave, slack):
                    column[last] -= missing
                free[soon] = leave[last]
        if best < 0:
            best = max(used[e], known[e])
            if best == len(free):
                best = np.argmin(free)
        more += best >= known[e]
        core[i] = best
        if free[best] <= arrive[i]:
            before[i] = latest[first[e] + best]
        latest[first[e] + best] = i
        slack[i] = min(slack[i], arrive[i] - free[best])
        used[e] = max(used[e], best + 1)
        free[best] = max(free[best], leave[i])
    return core, before, more


def _meet(rows: Rows, task: Times, before: Times) -> None:
    """Let the driver know of the end of a task when it launches the next one on its core, at the
    latest.

    Spark frees the core when it learns of the end, and notes the end only once it has the result,
    after the next launch: otherwise nothing would seem to cause that one. Fetching of that result is
    left out. task, before: rows.
    """
    left = leaving(rows[before])
    early = (rows["launch"][task] < rows["finish"][before]) & ~rows["killed"][before]
    # Two messages without duration would form a cycle.
    early &= left < rows["arrive"][task]
    task, before, left = task[early], before[early], left[early]
    times = np.maximum(rows["launch"][task], left)
    rows["finish"][before] = np.minimum(rows["finish"][before], times)
    rows["getting"][before] = False
    rows["launch"][task] = times


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedTasks:
    """Tasks with their cores, and what the driver did."""

    tasks: RowBlocks
    driver: RowBlocks
    cores: ExecutorCores
    stages: npt.NDArray[np.int32]
    """Ids of all stages, sorted."""
    wrote: npt.NDArray[np.int32]
    """Distinct (stage, executor, core) of useful tasks, sorted."""


def place_tasks(tasks: TaskRows, known: Sequence[int], driver: DriverPieces) -> PlacedTasks:
    """Assign cores in one pass over all tasks, and cut up the time of the driver.

    known: number of cores of every executor.
    """
    raw = tasks.close()
    cores = ExecutorCores(np.array(known, dtype=np.int64))
    done, drove = RowBlocks(PLACED_ROW, "launch", "finish", held=KEPT), activity_blocks()
    spans = _spans(raw, driver.boundaries)
    wrote, stages = [np.empty((0, 3), dtype=np.int32)], [np.empty(0, dtype=np.int32)]
    for start, end in spans:
        rows = raw.meeting(start, end)
        coming = placed(rows[(rows["arrive"] >= start) & (rows["arrive"] < end)])
        coming["good"] &= ~tasks.lost.among(coming["number"])
        cores.place(coming)
        if len(coming):
            done.add(coming)
            good = coming[coming["good"]]
            pairs = np.column_stack([good["stage"], good["executor"], good["core"]])
            wrote.append(np.unique(pairs, axis=0))
            stages.append(np.unique(coming["stage"]))
    for start, end in spans:
        drove.add(driver.take(done.meeting(start, end), start, end))
    drove.add(driver.rest())
    return PlacedTasks(
        tasks=done,
        driver=drove,
        cores=cores,
        stages=np.unique(np.concatenate(stages)),
        wrote=np.unique(np.concatenate(wrote), axis=0),
    )


def _spans(tasks: RowBlocks, boundaries: Times) -> list[tuple[int, int]]:
    """Return consecutive spans of time with about one block of tasks each."""
    known = [*boundaries.tolist(), *(tasks.span or ())]
    if not known:
        return []
    first, last = min(known), max(known) + 1
    # Integers: a float cannot hold nanoseconds since 1970 exactly.
    count = 64 * max(1, len(tasks) // BLOCK_ROWS)
    fine = np.unique([first + (last - first) * i // count for i in range(count + 1)])
    group = (tasks.before(fine[:-1]) // BLOCK_ROWS).astype(np.int64)
    starts = fine[np.flatnonzero(np.diff(group, prepend=-1))]
    return list(zip(starts.tolist(), [*starts[1:].tolist(), last], strict=True))
