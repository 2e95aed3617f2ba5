"""The tasks of an application by stage, in the order of their launches: compact columns, 21 bytes per task.

Columns that are larger than `HELD` bytes are in temporary files, so that the system can take their
memory back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from rechannel.profiling.diagnosis.schedule import Durations, Floats, Ints
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.rows import TASK_STEPS, TaskRows
from rechannel.profiling.storage.blocks import Rows

HELD = 1 << 25
"""Bytes of a column that stay in memory."""
PIECE = 1 << 20
"""Tasks that are sorted at a time."""
GOOD, KILLED, COPY, FAILED = 1, 2, 4, 8
"""Flags of tasks. COPY: a speculative attempt. FAILED: neither good nor killed."""

StageKey = tuple[int, int]
"""Number and attempt."""

SUMMED = ("in_bytes", "in_rows", "read_bytes", "read_rows", "spill_memory", "spill_disk", "cpu")
"""Columns of rows whose sums are known by stage."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskTable:
    """All attempts of tasks. The tasks of stage i are those from `first[i]` to `first[i + 1]`."""

    stages: list[StageKey]
    """Attempts of stages that have tasks, sorted."""
    first: Ints
    launch: Ints
    """Unix ms."""
    durations: Durations
    """From launch to finish, ms."""
    amount: npt.NDArray[np.float32]
    """Bytes of input and of shuffle blocks that the task read."""
    executor: npt.NDArray[np.int32]
    """Number in `TaskRows.executors`."""
    flags: npt.NDArray[np.uint8]
    sums: Mapping[str, Floats]
    """By stage: the columns `SUMMED`; `steps` by their names, ns; `lasted`, ns."""

    @classmethod
    def of(cls, tasks: TaskRows) -> TaskTable:
        """Sort tasks by stage, in one pass over their rows."""
        blocks = tasks.close()
        stages = sorted(tasks.stages)
        first = np.cumsum([0, *(tasks.stages[stage].tasks for stage in stages)], dtype=np.int64)
        codes = np.array([code_of(*stage) for stage in stages], dtype=np.int64)
        count = int(first[-1])
        launch, durations = column(count, np.int64), column(count, np.float32)
        amount, executor = column(count, np.float32), column(count, np.int32)
        flags = column(count, np.uint8)
        sums = {name: np.zeros(len(stages)) for name in (*SUMMED, *TASK_STEPS, "lasted")}
        following = first[:-1].copy()
        for rows in blocks.each():
            at = np.searchsorted(codes, code_of(rows["stage"], rows["attempt"]))
            good = rows["good"] & ~tasks.lost.among(rows["number"])
            _sum(sums, at, rows)
            places = _places(at, following)
            launch[places] = rows["launch"] // MS
            durations[places] = (rows["finish"] - rows["launch"]) / MS
            amount[places] = rows["in_bytes"] + rows["read_bytes"]
            executor[places] = rows["executor"]
            flags[places] = (
                good * GOOD
                + rows["killed"] * KILLED
                + rows["speculative"] * COPY
                + (~rows["good"] & ~rows["killed"]) * FAILED
            )
        _sort(first, (launch, durations, amount, executor, flags))
        return cls(
            stages=stages,
            first=first,
            launch=launch,
            durations=durations,
            amount=amount,
            executor=executor,
            flags=flags,
            sums=sums,
        )

    def __len__(self) -> int:
        return len(self.durations)

    def part(self, stage: int) -> slice:
        """Return where the tasks of a stage are."""
        return slice(int(self.first[stage]), int(self.first[stage + 1]))


def code_of(stage: Any, attempt: Any) -> Any:
    """Return one number for an attempt of a stage; in the order of both."""
    return np.asarray(stage, dtype=np.int64) << 32 | np.asarray(attempt, dtype=np.int64)


def column(count: int, kind: Any) -> npt.NDArray[Any]:
    """Return an array; one of more than `HELD` bytes is in a temporary file, which is deleted with it."""
    if count * np.dtype(kind).itemsize <= HELD:
        return np.zeros(count, dtype=kind)
    with TemporaryFile(prefix="rechannel-tasks-") as file:
        return np.asarray(np.memmap(file, dtype=kind, mode="w+", shape=(count,)))


def _sum(sums: Mapping[str, Floats], at: Ints, rows: Rows) -> None:
    """Add rows to the sums of their stages."""
    for name in SUMMED:
        np.add.at(sums[name], at, rows[name].astype(np.float64))
    for i, name in enumerate(TASK_STEPS):
        np.add.at(sums[name], at, rows["steps"][:, i].astype(np.float64))
    np.add.at(sums["lasted"], at, (rows["finish"] - rows["launch"]).astype(np.float64))


def _places(at: Ints, following: Ints) -> Ints:
    """Return the next free places of the stages of some rows. following: updated in place."""
    order = np.argsort(at, kind="stable")
    mine = at[order]
    rank = np.arange(len(at)) - np.searchsorted(mine, mine)
    places = np.empty(len(at), dtype=np.int64)
    places[order] = following[mine] + rank
    following += np.bincount(at, minlength=len(following))
    return places


def pieces(first: Ints) -> Iterator[tuple[int, int]]:
    """Yield spans of consecutive stages, each of about `PIECE` tasks, or one stage of more."""
    begin = 0
    while begin < len(first) - 1:
        end = int(np.searchsorted(first, first[begin] + PIECE, side="right")) - 1
        end = max(begin + 1, end)
        yield begin, end
        begin = end


def _sort(first: Ints, columns: Sequence[npt.NDArray[Any]]) -> None:
    """Sort the tasks of every stage by the first column, in place; equal ones keep their order."""
    for begin, end in pieces(first):
        part = slice(int(first[begin]), int(first[end]))
        stage = np.repeat(np.arange(begin, end), np.diff(first[begin : end + 1]))
        order = np.lexsort((columns[0][part], stage))
        for values in columns:
            values[part] = values[part][order]
