"""Retries of failed tasks and speculative copies: what they waited for, so that a replay does not begin them early."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rechannel.profiling.diagnosis.schedule import LATE, WAITED, Floats, Ints
from rechannel.profiling.diagnosis.task_table import COPY, FAILED, KILLED, TaskTable
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.stage_tasks import tasks_of
from rechannel.profiling.storage.blocks import Rows


def late_tasks(
    app: Application, table: TaskTable, of_table: Ints
) -> tuple[npt.NDArray[np.uint8], Ints, Ints, Floats]:
    """Return the flags of tasks, and the columns `late`, `late_tasks` and `late_delays` of a schedule.

    of_table: where the stages of the schedule are in the table.
    """
    flags = np.where(table.flags & KILLED, 0, WAITED).astype(np.uint8)
    odd = np.flatnonzero(table.flags & (KILLED | COPY | FAILED))
    stages = set(np.unique(np.searchsorted(table.first, odd, side="right") - 1).tolist())
    counts, parts, delays = [], [np.empty((0, 2), dtype=np.int64)], [np.empty(0)]
    for stage in of_table.tolist():
        found = np.empty((0, 2), dtype=np.int64)
        if stage in stages:
            part = table.part(stage)
            if not flags[part].any():
                flags[part] = WAITED
            rows = tasks_of(app, *table.stages[stage])
            if len(rows) == part.stop - part.start:
                found, delay = _late_of(rows)
                flags[part.start + found[:, 0]] |= LATE
                parts.append(np.where(found >= 0, found + part.start, -1))
                delays.append(delay)
        counts.append(len(found))
    return (
        flags,
        np.cumsum([0, *counts], dtype=np.int64),
        np.concatenate(parts),
        np.concatenate(delays),
    )


def _late_of(rows: Rows) -> tuple[Ints, Floats]:
    """Return the late tasks of a stage by what they waited for, and their delays, ms."""
    rows = rows[np.argsort(rows["launch"], kind="stable")]
    launch, finish = rows["launch"], rows["finish"]
    order = np.lexsort((np.arange(len(rows)), rows["index"]))
    again = np.zeros(len(rows), dtype=np.int64) - 1
    same = rows["index"][order][1:] == rows["index"][order][:-1]
    again[order[1:][same]] = order[:-1][same]
    # The attempt before may be a copy that still runs, while the one before that has failed.
    before = np.where(again >= 0, again, 0)
    retry = (again >= 0) & (finish[before] <= launch)
    copy = rows["speculative"] & ~retry
    late = np.flatnonzero(retry | copy)
    after = np.where(retry, again, -1)[late]
    since = np.where(retry, finish[before], launch.min(initial=1 << 62))[late]
    delay = (launch[late] - since) / MS
    ordered = np.argsort(after, kind="stable")
    return np.column_stack([late, after])[ordered].astype(np.int64), delay[ordered]
