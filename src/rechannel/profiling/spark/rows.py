"""Tasks of Spark as rows of numbers: what a log reports of them, with durations that fit into the
task's time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from rechannel.errors import TraceError
from rechannel.profiling.model.trace import MS, Times
from rechannel.profiling.spark.lost import LostTasks
from rechannel.profiling.spark.task_events import Metrics
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

FAILURES = (
    *("", "exception", "fetch failed", "executor lost"),
    *("killed", "commit denied", "other"),
)
"""Why an attempt failed, by its code in `TASK_ROW`; 0 if it did not."""

FIGURES = (
    *("in_bytes", "in_rows", "out_rows", "read_bytes", "read_rows", "write_bytes", "write_rows"),
    *("spill_memory", "spill_disk", "peak", "result", "cpu"),
)
"""Columns of `TASK_ROW` whose values are those of the log."""

PLACED_ROW = np.dtype(
    [
        ("executor", "i4"),
        ("stage", "i4"),
        ("index", "i4"),
        ("core", "i4"),
        ("getting", "?"),
        ("good", "?"),
        ("killed", "?"),
        ("failed", "i1"),
        ("beaten", "?"),
        ("speculative", "?"),
        ("number", "i8"),
        ("launch", "i8"),
        ("finish", "i8"),
        ("arrive", "i8"),
        ("steps", "i8", (len(TASK_STEPS),)),
    ]
)
"""What a trace needs of a task. Times and durations are ns.

executor: number of the executor in `TaskRows.executors`. core: of the executor, -1 until it is
known. arrive: when the task reached its core. getting: whether the driver fetched the result.
good: whether the attempt was useful. killed: nothing waited for its end, because another attempt
was faster, or its result was no longer needed. failed: code in `FAILURES`. beaten: whether it was
killed because another attempt of the same task was faster. speculative: whether it was a copy of an
attempt that seemed slow. number: id of the task.
"""
TASK_ROW = np.dtype(
    [
        *PLACED_ROW.descr,
        ("attempt", "i4"),
        *((name, "i8") for name in FIGURES),
    ]
)
"""Everything that is known of a task: `PLACED_ROW`, and what findings need.

attempt: of the stage. in, out: input and output, bytes and rows. read: shuffle blocks that it
fetched, from this host and others. write: shuffle blocks that it wrote. spill_memory, spill_disk:
bytes spilled, as they were in memory and as they are on disk. peak: execution memory, bytes.
result: size of its result, bytes. cpu: ns.
"""

_TOLD = (
    *("executor", "stage", "index", "number", "good", "killed"),
    *("failed", "beaten", "attempt", "speculative"),
    *FIGURES,
    *("launch", "finish", "getting", "deserialise", "run", "gc", "serialise", "fetch", "write"),
)
"""What is known of a task, in the order in which `TaskRows.add` writes it."""
_TIMES = _TOLD.index("launch")
_PACKED = struct.Struct(f"={len(_TOLD)}q")
_MOST = 1 << 43
"""No time and no duration exceeds it, ms: times `MS` it still has 64 bits."""
_BUFFERED = 1 << 14
KEPT = 1 << 24
"""Bytes of rows that stay in memory: each is read once or twice more, block by block."""


class SparkTask(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    metrics: Metrics = msgspec.field(default_factory=Metrics)
    good: bool = True
    """Whether the attempt succeeded."""
    killed: bool = False
    failed: int = 0
    """Code in `FAILURES`."""
    beaten: bool = False
    """Whether it was killed because another attempt was faster."""
    attempt: int = 0
    """Attempt of the stage."""
    speculative: bool = False


@dataclass(slots=True)
class StageSpan:
    """The tasks of an attempt of a stage: how many there are, and when they ran, ns."""

    tasks: int
    start: int
    end: int


class TaskRows:
    """Collects tasks as they come."""

    def __init__(self) -> None:
        # Numbers of executors in rows, by id.
        self.executors: dict[str, int] = {}
        # Tasks whose output was lost.
        self.lost = LostTasks()
        self.blocks = RowBlocks(TASK_ROW, "launch", "finish", held=KEPT)
        self.stages: dict[tuple[int, int], StageSpan] = {}
        self._open = bytearray()

    def __len__(self) -> int:
        return len(self.blocks) + len(self._open) // _PACKED.size

    def add(self, task: SparkTask) -> None:
        """Add a task. Raises TraceError for a number that has more than 64 bits."""
        metrics = task.metrics
        read, write = metrics.read, metrics.write
        try:
            packed = _PACKED.pack(
                self.executors.setdefault(task.executor, len(self.executors)),
                task.stage,
                task.index,
                task.number,
                task.good,
                task.killed,
                task.failed,
                task.beaten,
                task.attempt,
                task.speculative,
                metrics.input.size,
                metrics.input.rows,
                metrics.output.rows,
                read.remote_bytes + read.local_bytes,
                read.rows,
                write.size,
                write.rows,
                metrics.spill_memory,
                metrics.spill_disk,
                metrics.peak,
                metrics.result,
                metrics.cpu,
                task.launch,
                task.finish,
                task.getting,
                metrics.deserialise,
                metrics.run,
                metrics.gc,
                metrics.serialise,
                read.fetch_wait,
                write.time,
            )
        except struct.error as error:
            msg = f"a number of task {task.number} has more than 64 bits"
            raise TraceError(msg) from error
        self._open += packed
        if len(self._open) >= _BUFFERED * _PACKED.size:
            self.close()

    def close(self) -> RowBlocks:
        """Return all rows so far."""
        if self._open:
            told = np.frombuffer(bytes(self._open), dtype=np.int64).reshape(-1, len(_TOLD))
            self._open = bytearray()
            rows = _rows(told)
            self._count(rows)
            self.blocks.add(rows)
        return self.blocks

    def each(self) -> Iterator[Rows]:
        """Iterate over all rows, block by block."""
        return self.close().each()

    def keep(self, start: int, end: int) -> int:
        """Drop tasks that do not lie within [start, end], ns; returns how many they are."""
        before = self.close()
        self.blocks, self.stages = RowBlocks(TASK_ROW, "launch", "finish", held=KEPT), {}
        for rows in before.each():
            kept = rows[(rows["launch"] >= start) & (rows["finish"] <= end)]
            if len(kept):
                self._count(kept)
                self.blocks.add(kept)
        return len(before) - len(self.blocks)

    def _count(self, rows: Rows) -> None:
        """Note how many tasks of which stages there are, and when they ran."""
        key = rows["stage"].astype(np.int64) << 32 | rows["attempt"]
        order = np.argsort(key, kind="stable")
        begin = np.flatnonzero(np.diff(key[order], prepend=-1 << 62))
        counts = np.diff(begin, append=len(key)).tolist()
        starts = np.minimum.reduceat(rows["launch"][order], begin).tolist()
        ends = np.maximum.reduceat(rows["finish"][order], begin).tolist()
        for one, count, start, end in zip(
            key[order][begin].tolist(), counts, starts, ends, strict=True
        ):
            stage = one >> 32, one & 0xFFFFFFFF
            known = self.stages.setdefault(stage, StageSpan(0, start, end))
            known.tasks += count
            known.start, known.end = min(known.start, start), max(known.end, end)


def _rows(told: npt.NDArray[np.int64]) -> Rows:
    """Return rows of `TASK_ROW`; durations are cut so that rounding and clocks do not make them
    exceed the task.

    told: one row per task, with the columns `_TOLD`.
    """
    rows = np.empty(len(told), dtype=TASK_ROW)
    for place, name in enumerate(_TOLD[:_TIMES]):
        rows[name] = told[:, place]
    times: Mapping[str, Any] = {
        name: np.clip(told[:, place], 0, _MOST) * MS
        for place, name in enumerate(_TOLD)
        if place >= _TIMES
    }
    launch, finish, getting = times["launch"], times["finish"], times["getting"]
    lasted = finish - launch
    back = np.where(getting > 0, np.clip(finish - getting, 0, lasted), 0)
    deserialise = np.clip(times["deserialise"], 0, lasted - back)
    run = np.clip(times["run"], 0, lasted - back - deserialise)
    serialise = np.clip(times["serialise"], 0, lasted - back - deserialise - run)
    delay = lasted - back - deserialise - run - serialise
    fetch = np.clip(times["fetch"], 0, run)
    write = np.clip(told[:, _TOLD.index("write")], 0, run - fetch)
    gc = np.clip(times["gc"], 0, run - fetch - write)
    rows["core"], rows["getting"] = -1, getting > 0
    rows["launch"], rows["finish"] = launch, finish
    rows["arrive"] = launch + (delay * SHIPPING).astype(np.int64)
    rows["steps"] = np.column_stack(
        [deserialise, fetch, run - fetch - gc - write, gc, write, serialise]
    )
    return rows


def placed(rows: Rows) -> Rows:
    """Return rows of `TASK_ROW` as rows of `PLACED_ROW`."""
    found = np.empty(len(rows), dtype=PLACED_ROW)
    for name in PLACED_ROW.names or ():
        found[name] = rows[name]
    return found


def leaving(rows: Rows) -> Times:
    """Return when tasks left their core."""
    left: Times = rows["arrive"] + rows["steps"].sum(axis=1)
    return left


def fetching(rows: Rows) -> tuple[Any, Any]:
    """Return when tasks began to fetch shuffle blocks, and when they had them."""
    begun = rows["arrive"] + rows["steps"][:, :FETCHING].sum(axis=1)
    return begun, begun + rows["steps"][:, FETCHING]
