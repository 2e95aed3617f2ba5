"""The source task: source rows -> user functions -> blobs for stateful operators, or sink-buffer files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.shuffle.send import CHUNK_BYTES, CHUNK_ROWS, Order, chunk_bytes
from rechannel.kernels.shuffle.wire import to_batches
from rechannel.kernels.tasks.control import Controls
from rechannel.kernels.tasks.emit import Emitter
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.report import SparkTask, TaskReport
from rechannel.kernels.tasks.task_view import Viewed


@dataclass(frozen=True, kw_only=True)
class SourceTask:
    """One task of a source stage in one timestep."""

    program: StageProgram
    step: StageStep
    task: int
    attempt: str
    origin: SparkTask | None = None
    """Spark's names of the task, by which telemetry finds Spark's own figures."""

    def run(self, rows: Iterable[tuple[Order, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Turn (order, batch) pairs into (partition, blob) rows; the last blob is the task's report."""
        yield from to_batches(self.parcels(rows))

    def parcels(self, rows: Iterable[tuple[Order, pa.RecordBatch]]) -> Iterator[tuple[int, bytes]]:
        """Turn (order, batch) pairs into pairs of a partition and a blob, as `run` does."""
        measures = Measures()
        emitter = Emitter(self.program, self.step, self.task, self.attempt, measures)
        controls = None
        if self.step.controls:
            controls = Controls(self.program, self.step, self.task)
            view = Viewed(
                program=self.program,
                step=self.step,
                task=self.task,
                measures=measures,
                emitter=emitter,
            )
            controls.run(view, blocking=True)
        for order, batch in gather_chunks(measures.waiting(rows), chunk_bytes(self.step.memory)):
            measures.count("rows_in", batch.num_rows)
            measures.count("bytes_in", batch.nbytes)
            yield from emitter.rows(batch, order)
        yield from emitter.watermarks(self.step.event_times)
        if controls is not None:
            controls.run(view, blocking=False)
            yield from controls.parcels(emitter)
        report = TaskReport(
            operator=self.program.operator,
            timestep=self.step.timestep,
            task=self.task,
            attempt=self.attempt,
            spark=self.origin,
            emitted=emitter.finish(),
            costs=measures.costs(),
            controls=() if controls is None else controls.ended(),
        )
        yield self._home(), report.blob()

    def _home(self) -> int:
        """Return the partition that the report goes to: one for reports alone, or a task of the first consumer."""
        if self.step.reports_to >= 0 or not self.step.addresses:
            return self.step.reports_to
        first = next(iter(self.step.addresses.values()))
        return first.first + self.task % first.routing.tasks


def gather_chunks(
    rows: Iterable[tuple[Order, pa.RecordBatch]],
    most: int = CHUNK_BYTES,
) -> Iterator[tuple[Order, pa.RecordBatch]]:
    """Join neighbouring batches of one place in the stream into chunks worth sorting. most: bytes of a chunk."""
    held: list[pa.RecordBatch] = []
    place: int | None = None
    size = 0
    for order, batch in rows:
        if not isinstance(order, int):
            if held and place is not None:
                yield place, _join(held)
                held, size = [], 0
            yield order, batch
            continue
        weight = max(batch.num_rows, batch.nbytes * CHUNK_ROWS // most)
        if held and place is not None and (order != place or size + weight > CHUNK_ROWS):
            yield place, _join(held)
            held, size = [], 0
        held.append(batch)
        place = order
        size += weight
    if held and place is not None:
        yield place, _join(held)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
