"""What the tasks of an operator did in one timestep, if there are many: one event for all of them.

It has the columns in which the tasks were reported (`kernels.tasks.report_table`), and those of Spark's figures. What
`TaskFinished` says of one task it says in sum, under the same names; `each` yields the tasks.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.tasks.report_table import COUNT, KEPT, MS, SENT, TIMES, Layout, columns_of
from rechannel.model.codec import written
from rechannel.model.streams import from_stream, to_stream
from rechannel.telemetry.bundles import shared_out
from rechannel.telemetry.record import Record
from rechannel.telemetry.task_finished import (
    NAMED_COUNTS,
    JudgedRows,
    Kept,
    SegmentWritten,
    Sent,
    SparkMetrics,
    SparkTaskId,
    TaskFinished,
)

Floats: TypeAlias = npt.NDArray[np.float64]

_AS_TEXT = written(
    encode=lambda data: None if data is None else b64encode(data).decode(),
    decode=lambda text: None if text is None else b64decode(text, validate=True),
)
_OF_SPARK = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
}
_ROW = "row"


@dataclass(frozen=True, kw_only=True)
class TasksFinished(Record):
    """The winning attempts of all tasks of one operator in one timestep."""

    KIND: ClassVar[str] = "tasks_finished"

    timestep: int
    operator: str
    number: int
    """How many tasks there are."""
    figures: Annotated[bytes, _AS_TEXT]
    """What each task did: a compressed stream of Arrow's IPC format, a row per task."""
    spark: Annotated[bytes | None, _AS_TEXT] = None
    """Spark's figures: likewise, with the `row` that each belongs to; None where they are not known."""

    def __post_init__(self) -> None:
        """Check the counts."""
        self.check_natural("timestep", "number")

    def column(self, name: str) -> Floats:
        """Return the figures of a column of `TIMES` by task; 0 where a task has none. Shape (tasks,)."""
        column = self._times[0].column(TIMES.index(name))
        filled = column.fill_null(0) if column.null_count else column
        figures: Floats = filled.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        return figures

    def sent_sums(self, figure: str) -> dict[str, int]:
        """Return the sum of `rows`, `offered` or `bytes` that went to each operator downstream."""
        out: dict[str, int] = {}
        for place, (operator, _) in enumerate(self._layout.inputs):
            out[operator] = out.get(operator, 0) + self._sum(f"{SENT}{place} {figure}")
        return out

    @cached_property
    def busy_ms(self) -> Floats:
        """Duration of the function of each task without the time spent waiting for input. Shape (tasks,)."""
        took = self.column("finished_ms") - self.column("started_ms") - self.column(f"{MS}wait")
        return np.maximum(0.0, took)

    @property
    def launch_ms(self) -> Floats:
        """When Spark launched each task, or when its function began if Spark's figures are absent. Shape (tasks,)."""
        return self._where_known("launch_ms", self.column("started_ms"))

    @property
    def finish_ms(self) -> Floats:
        """When Spark had the result, or when the function ended if Spark's figures are absent. Shape (tasks,)."""
        return self._where_known("finish_ms", self.column("finished_ms"))

    @property
    def freed_ms(self) -> Floats:
        """When each task left its core at the earliest: see `recent_tasks`. Shape (tasks,)."""
        freed, found = self.finish_ms, self._spark
        if found is None:
            return freed
        took = sum(
            _numbers(found, name) for name in ("deserialise_ms", "run_ms", "result_serialise_ms")
        )
        rows = _numbers(found, _ROW).astype(np.int64)
        early = np.minimum(_numbers(found, "finish_ms"), _numbers(found, "launch_ms") + took)
        freed[rows] = np.where(took > 0, early, freed[rows])
        return freed

    @property
    def executors(self) -> set[str]:
        """Executors that had a task; empty if Spark's figures are absent."""
        found = self._spark
        return set() if found is None else set(found.column("executor").unique().to_pylist())

    @property
    def measured_all(self) -> bool:
        """Whether Spark's figures of all tasks are known."""
        return self._spark is not None and self._spark.num_rows == self.number

    @property
    def spark_tasks(self) -> dict[int, set[int]]:
        """Spark's ids of the tasks whose figures are not known, by stage."""
        if self.spark:
            return {}
        batch, _ = self._times
        stages, tasks = batch.column("spark_stage"), batch.column("spark_task")
        out: dict[int, set[int]] = {}
        for stage, task in zip(stages.to_pylist(), tasks.to_pylist(), strict=True):
            if stage is not None:
                out.setdefault(stage, set()).add(task)
        return out

    @property
    def spark_ids(self) -> Floats:
        """Spark's id of the task in which each ran; a negative number of its own where it is not known."""
        batch, _ = self._times
        known = batch.column("spark_task")
        ids = known.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        missing = known.is_null().to_numpy(zero_copy_only=False)
        return np.where(missing, -1.0 - np.arange(self.number), ids)

    def measured(self, found: Mapping[int, SparkMetrics]) -> TasksFinished:
        """Return the same tasks with Spark's figures. found: by Spark's id of the task."""
        batch, _ = self._times
        rows_of: dict[int, list[int]] = {}
        for row, task in enumerate(batch.column("spark_task").to_pylist()):
            if task in found:
                rows_of.setdefault(task, []).append(row)
        began, ended = self.column("started_ms"), self.column("finished_ms")
        known = [
            (row, share)
            for task, rows in rows_of.items()
            for row, share in zip(
                rows,
                shared_out(found[task], [(began[row], ended[row]) for row in rows]),
                strict=True,
            )
        ]
        if not known:
            return self
        columns = {
            each.name: pa.array(
                [getattr(spark, each.name) for _, spark in known], _OF_SPARK[str(each.type)]
            )
            for each in fields(SparkMetrics)
        }
        columns[_ROW] = pa.array([row for row, _ in known], pa.int64())
        return replace(self, spark=to_stream(pa.RecordBatch.from_pydict(columns)))

    # In sum, as `TaskFinished` has it of one task ---------------------------------------------------

    @property
    def tasks(self) -> int:
        """How many there are."""
        return self.number

    @property
    def rows_in(self) -> int:
        """Rows received."""
        return self._count("rows_in")

    @property
    def rows_out(self) -> int:
        """Rows made by the operator itself; of a source, those received."""
        return self._count("rows_out")

    @property
    def bytes_in(self) -> int:
        """Bytes received."""
        return self._count("bytes_in")

    @property
    def bytes_out(self) -> int:
        """Bytes sent to consumers and written to sink buffers."""
        sent = (self._sum(f"{SENT}{place} bytes") for place in range(len(self._layout.inputs)))
        kept = (self._sum(f"{KEPT}{place} bytes") for place in range(len(self._layout.nodes)))
        return sum(sent) + sum(kept)

    @property
    def rows_kept(self) -> int:
        """Rows written to sink buffers."""
        return sum(self._sum(f"{KEPT}{place} rows") for place in range(len(self._layout.nodes)))

    @property
    def keys(self) -> int:
        """Distinct keys in the input of each task."""
        return self._count("keys")

    @cached_property
    def ms(self) -> Mapping[str, float]:
        """Milliseconds by activity."""
        return {name: self._layout.sums[MS + name] for name in self._named(MS)}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Everything else that the tasks counted."""
        return {n: self._count(n) for n in self._named(COUNT) if n not in NAMED_COUNTS}

    @property
    def judged(self) -> tuple[JudgedRows, ...]:
        """Rows that may be bad."""
        found = self._layout.judged
        return tuple(
            JudgedRows(node=node, rows=one.rows, bad=one.bad, failed=one.failed)
            for node, one in found.items()
        )

    @property
    def slowest(self) -> TaskFinished:
        """The task that was busy for the longest time, as far as its times go."""
        found = self._layout.slowest
        return TaskFinished(
            timestep=self.timestep,
            operator=self.operator,
            task=found.task,
            attempt=found.attempt,
            host=found.costs.host,
            pid=found.costs.pid,
            started_ms=found.costs.started_ms,
            finished_ms=found.costs.finished_ms,
            cpu_ms=found.costs.cpu_ms,
            ms=found.costs.ms,
        )

    @property
    def bins(self) -> tuple[str, ...]:
        """Rows per bin, packed, of each task that received any."""
        return tuple(self._times[0].column("bins").drop_null().to_pylist())

    # Task by task ------------------------------------------------------------------------------------

    def each(self) -> Iterator[TaskFinished]:
        """Yield what each task did, in the order of their numbers."""
        return self._single(np.arange(self.number))

    def longest(self, most: int) -> list[TaskFinished]:
        """Return what the tasks did that were busy longest, those first. most: how many at most."""
        return list(self._single(np.argsort(-self.busy_ms, kind="stable")[:most]))

    def _single(self, rows: npt.NDArray[np.int64]) -> Iterator[TaskFinished]:
        columns, layout = columns_of(self.figures, all_columns=True)
        spark = dict(self._metrics())
        for row, known in zip(rows.tolist(), columns.take(rows).to_pylist(), strict=True):
            yield _task(self, known, layout, spark.get(row))

    def _metrics(self) -> Iterator[tuple[int, SparkMetrics]]:
        for known in () if self._spark is None else self._spark.to_pylist():
            row = known.pop(_ROW)
            yield row, SparkMetrics(**known)

    @cached_property
    def _times(self) -> tuple[pa.RecordBatch, Layout]:
        return columns_of(self.figures, all_columns=False)

    @property
    def _layout(self) -> Layout:
        return self._times[1]

    @cached_property
    def _spark(self) -> pa.RecordBatch | None:
        return from_stream(self.spark) if self.spark else None

    def _sum(self, column: str) -> int:
        return int(self._layout.sums.get(column, 0))

    def _count(self, name: str) -> int:
        return self._sum(COUNT + name)

    def _named(self, beginning: str) -> list[str]:
        return [n.removeprefix(beginning) for n in self._layout.sums if n.startswith(beginning)]

    def _where_known(self, name: str, otherwise: Floats) -> Floats:
        found = self._spark
        if found is None:
            return otherwise
        figures = otherwise.copy()
        figures[_numbers(found, _ROW).astype(np.int64)] = _numbers(found, name)
        return figures


def _numbers(batch: pa.RecordBatch, name: str) -> Floats:
    figures: Floats = batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
    return figures


def _judged(text: str) -> Iterator[JudgedRows]:
    for node, known in json.loads(text).items():
        yield JudgedRows(
            node=node, rows=known["rows"], bad=known["bad"], failed=known.get("failed", {})
        )


def _task(
    event: TasksFinished,
    known: Mapping[str, Any],
    layout: Layout,
    spark: SparkMetrics | None,
) -> TaskFinished:
    counts = _with(known, COUNT)
    sent = tuple(
        Sent(operator=operator, input=number, **_with(known, f"{SENT}{place} "))
        for place, (operator, number) in enumerate(layout.inputs)
        if known[f"{SENT}{place} rows"] is not None
    )
    kept = tuple(
        Kept(node=node, **_with(known, f"{KEPT}{place} "))
        for place, node in enumerate(layout.nodes)
        if known[f"{KEPT}{place} rows"] is not None
    )
    stage = known["spark_stage"]
    made = TaskFinished(
        timestep=event.timestep,
        operator=event.operator,
        task=known["task"],
        attempt=known["attempt"],
        host=known["host"],
        pid=known["pid"],
        started_ms=known["started_ms"],
        finished_ms=known["finished_ms"],
        cpu_ms=known["cpu_ms"],
        ms=_with(known, MS),
        counts={name: n for name, n in counts.items() if name not in NAMED_COUNTS},
        bytes_out=sum(each.bytes for each in sent) + sum(each.bytes for each in kept),
        bins=known["bins"],
        segments=tuple(SegmentWritten(**each) for each in known["segments"]),
        sent=sent,
        kept=kept,
        judged=() if known["judged"] is None else tuple(_judged(known["judged"])),
        spark_task=None if stage is None else SparkTaskId(stage=stage, task=known["spark_task"]),
        **{name: counts.get(name, 0) for name in NAMED_COUNTS},
    )
    return made if spark is None else made.measured(spark)


def _with(known: Mapping[str, Any], beginning: str) -> dict[str, Any]:
    """Return the figures of the columns whose names begin so, by the rest of the name, where a task has them."""
    return {
        name.removeprefix(beginning): figure
        for name, figure in known.items()
        if name.startswith(beginning) and figure is not None
    }
