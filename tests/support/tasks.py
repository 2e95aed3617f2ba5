"""Tasks run by hand: what a producer sends, what a stateful task makes of it, what it reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.program import Branch, StageProgram, StageStep, TaskState
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.send import Channel, Order, Sender
from rechannel.kernels.shuffle.wire import DATA, SCHEMA, Blob, from_batches
from rechannel.kernels.tasks.report import TaskReport
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.operators.aggregate.functions import Count, Sum
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.state.manifest import Manifest
from rechannel.state.merging import Merge
from rechannel.state.stores.memory import MemoryStore

ROWS = pa.schema([("k", pa.string()), ("v", pa.int64())])
WHOLE = Routing.even(bins=1, tasks=1)


def counting() -> AggregateLogic:
    """Number of rows and sum of `v` by `k`."""
    return AggregateLogic.bind(["k"], {"n": Count(), "total": Sum(column="v")}, ROWS)


def rows(*pairs: tuple[str | None, int | None]) -> pa.RecordBatch:
    """Rows of `k` and `v`."""
    return pa.RecordBatch.from_pylist([{"k": k, "v": v} for k, v in pairs], schema=ROWS)


def sent(
    logic: StatefulLogic,
    batches: Sequence[tuple[pa.RecordBatch, Order]],
    *,
    routing: Routing = WHOLE,
    combined: bool = False,
    producer: int = 0,
    into: int = 0,
    first: int = 0,
) -> list[tuple[int, bytes]]:
    """(partition, blob) of everything one producer sends."""
    channel = Channel(
        operator="op",
        input=into,
        first=first,
        routing=routing,
        can=Capabilities(logic),
        combined=combined,
    )
    sender = Sender(channel, producer)
    return [parcel for batch, order in batches for parcel in sender.send(batch, order)]


def as_batch(parcels: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    """Parcels as an exchange hands them over."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([target for target, _ in parcels], pa.int32()),
            pa.array([blob for _, blob in parcels], pa.binary()),
        ],
        schema=SCHEMA,
    )


def blobs_of(parcels: Sequence[tuple[int, bytes]]) -> list[Blob]:
    """What a task finds in parcels, reports left out."""
    return [blob for blob in from_batches([as_batch(parcels)]) if blob.kind == DATA]


def reports_of(batches: Sequence[pa.RecordBatch]) -> list[TaskReport]:
    """What tasks said of themselves."""
    found = [blob for blob in from_batches(batches) if blob.kind != DATA]
    return [TaskReport.from_bytes(blob.message.to_pybytes()) for blob in found]


@dataclass
class Bench:
    """One operator with one or several tasks, run timestep after timestep."""

    logic: StatefulLogic
    store: MemoryStore = field(default_factory=MemoryStore)
    manifest: Manifest = field(default_factory=Manifest)
    timestep: int = 0
    reports: list[TaskReport] = field(default_factory=list)

    @property
    def program(self) -> StageProgram:
        root = Branch(node="op", schema=self.logic.output_schema, sink_buffer=True)
        return StageProgram(operator="op", root=root, store=self.store, logic=self.logic)

    def step(
        self,
        given: Sequence[tuple[pa.RecordBatch, Order]],
        *,
        routing: Routing = WHOLE,
        combined: bool = False,
        stream_ms: int = 0,
        merges: Mapping[int, tuple[Merge, ...]] | None = None,
    ) -> list[dict[str, Any]]:
        """One timestep: the rows that are emitted, task by task."""
        self.timestep += 1
        owned = [routing.intervals_of(task) for task in range(routing.tasks)]
        step = StageStep(
            timestep=self.timestep,
            stream_ms=stream_ms,
            routing=routing,
            tasks=tuple(
                TaskState(own=own, runs=self.manifest.within(own), merges=(merges or {}).get(i, ()))
                for i, own in enumerate(owned)
            ),
        )
        parcels = sent(self.logic, given, routing=routing, combined=combined)
        self.reports = []
        emitted: list[dict[str, Any]] = []
        for number in range(routing.tasks):
            task = StatefulTask(program=self.program, step=step, task=number, attempt="a")
            mine = [(target, blob) for target, blob in parcels if target == number]
            (report,) = reports_of(list(task.run([as_batch(mine)] if mine else [])))
            self.reports.append(report)
            keys = [kept.key for kept in report.emitted.buffered.values()]
            emitted += [row for b in sink_buffer_tables(self.store, keys) for row in b.to_pylist()]
        for report in self.reports:
            assert report.state is not None
            self.manifest = self.manifest.apply(report.state.edit)
        return emitted

    @property
    def state(self) -> TaskState:
        """All state, as a scan reads it."""
        everything = Intervals.everything()
        return TaskState(own=everything, runs=self.manifest.within(everything))
