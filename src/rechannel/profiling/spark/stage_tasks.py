"""The tasks of each stage, out of rows that are in the order of the log.

A pass over all rows holds those of the stages that have not been seen whole, at most `HELD_TASKS`.
Beyond that, the largest of them is thinned: of the rows that are held, every second one stays, and
the longest `LONGEST`. So figures of a thinned stage are those of a sample that has its longest
tasks; `TaskRows.stages` says how many there were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rechannel.profiling.spark.application import Application
from rechannel.profiling.spark.rows import TASK_ROW, TaskRows
from rechannel.profiling.storage.blocks import Rows

HELD_TASKS = 1 << 20
"""Rows that are held in memory at most, about 210 bytes each."""
LONGEST = 1 << 10
"""Longest tasks that stay when a stage is thinned, or a quarter of them if that is less."""
FEW = 16
"""A stage with fewer rows is not thinned."""


def tasks_of(app: Application, stage: int, attempt: int) -> Rows:
    """Return the tasks of an attempt of a stage, in the order of the log; thinned if there are more
    than `HELD_TASKS`.
    """
    tasks = app.tasks
    tasks.close()
    span = tasks.stages.get((stage, attempt))
    if span is None:
        return np.empty(0, dtype=TASK_ROW)
    held = _Held()
    for rows in tasks.blocks.within(span.start, span.end):
        held.add(rows[(rows["stage"] == stage) & (rows["attempt"] == attempt)])
        if held.rows > HELD_TASKS:
            held.thin()
    return _useful(tasks, held.joined())


def stages_of(app: Application) -> Iterator[tuple[tuple[int, int], Rows]]:
    """Yield the tasks of every attempt of a stage that has any: number, attempt and rows, in the
    order in which they ended. One pass over all rows.
    """
    tasks = app.tasks
    tasks.close()
    open_: dict[tuple[int, int], _Held] = {}
    for block in tasks.blocks.each():
        for stage, rows in _by_stage(block):
            held = open_.setdefault(stage, _Held())
            held.add(rows)
            if held.seen == tasks.stages[stage].tasks:
                del open_[stage]
                yield stage, _useful(tasks, held.joined())
        while sum(each.rows for each in open_.values()) > HELD_TASKS:
            largest = max(open_.values(), key=lambda each: each.rows)
            if largest.rows < FEW:
                break
            largest.thin()


@dataclass(slots=True)
class _Held:
    """Rows of a stage that are in memory."""

    parts: list[Rows] = field(default_factory=list)
    rows: int = 0
    seen: int = 0

    def add(self, rows: Rows) -> None:
        """Take rows; the block that they are from need not stay."""
        self.parts.append(rows.copy())
        self.rows += len(rows)
        self.seen += len(rows)

    def thin(self) -> None:
        """Keep every second row, and the longest."""
        rows = self.joined()
        most = min(LONGEST, len(rows) // 4)
        keep = np.zeros(len(rows), dtype=np.bool_)
        keep[::2] = True
        keep[np.argsort(rows["launch"] - rows["finish"], kind="stable")[:most]] = True
        self.parts = [rows[keep]]
        self.rows = len(self.parts[0])

    def joined(self) -> Rows:
        """Return all of them."""
        return np.concatenate([np.empty(0, dtype=TASK_ROW), *self.parts])


def _by_stage(rows: Rows) -> Iterator[tuple[tuple[int, int], Rows]]:
    """Yield the rows of each stage of a block, in the order of their first rows."""
    key = rows["stage"].astype(np.int64) << 32 | rows["attempt"]
    order = np.argsort(key, kind="stable")
    begin = np.flatnonzero(np.diff(key[order], prepend=-1 << 62))
    parts = np.split(rows[order], begin[1:]) if len(begin) else []
    for part in sorted(parts, key=lambda each: int(each["finish"][0])):
        yield (int(part["stage"][0]), int(part["attempt"][0])), part


def _useful(tasks: TaskRows, rows: Rows) -> Rows:
    """Return the rows; attempts whose output was lost were of no use."""
    rows["good"] &= ~tasks.lost.among(rows["number"])
    return rows
