"""Tasks of Spark as rows of numbers: the durations that a log reports, made to fit into the task's
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import MS, Times
from rechannel.profiling.spark.events import Metrics
from rechannel.profiling.storage.blocks import RowBlocks, Rows

SHIPPING = 0.33
"""Share of a task's unexplained time that lies before it; as in SnailTrail's adapter."""

TASK_STEPS = (
    "deserialization",
    "fetch wait",
    "processing",
    "garbage collection",
    "shuffle write",
    "serialization",
)
"""What a task does on its core, in this order."""
FETCHING = TASK_STEPS.index("fetch wait")

TASK_ROW = np.dtype(
    [
        ("executor", "i4"),
        ("stage", "i4"),
        ("index", "i4"),
        ("core", "i4"),
        ("getting", "?"),
        ("good", "?"),
        ("killed", "?"),
        ("number", "i8"),
        ("launch", "i8"),
        ("finish", "i8"),
        ("arrive", "i8"),
        ("steps", "i8", (len(TASK_STEPS),)),
    ]
)
"""Times and durations are ns.

executor: number of the executor in `TaskRows.executors`. core: of the executor, -1 until it is
known. arrive: when the task reached its core. getting: whether the driver fetched the result.
good: whether the attempt was useful. killed: nothing waited for its end, because another attempt
was faster, or its result was no longer needed. number: id of the task.
"""

_BUFFERED = 1 << 14
NOTHING = Metrics()


@dataclass(frozen=True, slots=True)
class SparkTask:
    """An attempt of a task. Times are Unix milliseconds."""

    number: int
    stage: int
    index: int
    """Index in the stage."""
    executor: str
    launch: int
    finish: int
    getting: int = 0
    """When the driver began to fetch its result; 0 if it never did."""
    metrics: Metrics = NOTHING
    good: bool = True
    """Whether the attempt succeeded."""
    killed: bool = False


class TaskRows:
    """Collects tasks as they come."""

    def __init__(self) -> None:
        # Numbers of executors in rows, by id.
        self.executors: dict[str, int] = {}
        # Tasks whose output was lost.
        self.lost: set[int] = set()
        self.blocks = RowBlocks(TASK_ROW, "launch", "finish")
        self._open: list[tuple[int, ...]] = []

    def __len__(self) -> int:
        return len(self.blocks) + len(self._open)

    def add(self, task: SparkTask) -> None:
        """Add a task."""
        metrics = task.metrics
        self._open.append(
            (
                self.executors.setdefault(task.executor, len(self.executors)),
                task.stage,
                task.index,
                task.number,
                task.good,
                task.killed,
                task.launch,
                task.finish,
                task.getting,
                metrics.deserialise,
                metrics.run,
                metrics.gc,
                metrics.serialise,
                metrics.read.fetch_wait,
                metrics.write.time,
            )
        )
        if len(self._open) >= _BUFFERED:
            self.close()

    def close(self) -> RowBlocks:
        """Return all rows so far."""
        if self._open:
            self.blocks.add(rows_of(np.array(self._open, dtype=np.int64)))
            self._open = []
        return self.blocks


def rows_of(told: npt.NDArray[np.int64]) -> Rows:
    """Return rows of `TASK_ROW`; durations are cut so that rounding and clocks do not make them
    exceed the task.

    told: one row per task, with the columns that `TaskRows.add` writes.
    """
    launch, finish, getting, deserialise, run, gc, serialise, fetch = (
        told[:, i] * MS for i in range(6, 14)
    )
    lasted = finish - launch
    back = np.where(getting > 0, np.clip(finish - getting, 0, lasted), 0)
    deserialise = np.clip(deserialise, 0, lasted - back)
    run = np.clip(run, 0, lasted - back - deserialise)
    serialise = np.clip(serialise, 0, lasted - back - deserialise - run)
    delay = lasted - back - deserialise - run - serialise
    fetch = np.clip(fetch, 0, run)
    write = np.clip(told[:, 14], 0, run - fetch)
    gc = np.clip(gc, 0, run - fetch - write)
    rows = np.empty(len(told), dtype=TASK_ROW)
    for place, name in enumerate(("executor", "stage", "index", "number", "good", "killed")):
        rows[name] = told[:, place]
    rows["core"], rows["getting"] = -1, getting > 0
    rows["launch"], rows["finish"] = launch, finish
    rows["arrive"] = launch + (delay * SHIPPING).astype(np.int64)
    rows["steps"] = np.column_stack(
        [deserialise, fetch, run - fetch - gc - write, gc, write, serialise]
    )
    return rows


def leaving(rows: Rows) -> Times:
    """Return when tasks left their core."""
    left: Times = rows["arrive"] + rows["steps"].sum(axis=1)
    return left


def fetching(rows: Rows) -> tuple[Any, Any]:
    """Return when tasks began to fetch shuffle blocks, and when they had them."""
    begun = rows["arrive"] + rows["steps"][:, :FETCHING].sum(axis=1)
    return begun, begun + rows["steps"][:, FETCHING]
