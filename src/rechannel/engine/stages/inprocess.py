"""Stages executed in this process, without a JVM: the same kernels, one task after the other.

For unit tests, for teaching, and for simulating faults. It runs sources that tasks can read themselves and
Arrow functions;
DataFrame functions need Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from rechannel.engine.program.physical import (
    Frame,
    PhysicalPlan,
    SinkBufferFrame,
    SinkPlan,
    SourceFrame,
    UnionFrame,
)
from rechannel.engine.stages.bundles import Bundles
from rechannel.engine.stages.runner import Placed, Timestep
from rechannel.engine.stages.sink_buffers import sink_buffer_tables
from rechannel.engine.stages.sink_rows import as_it_is
from rechannel.engine.stages.splits import assign
from rechannel.errors import ClusterError, DataflowError
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.shuffle.send import Order
from rechannel.kernels.shuffle.wire import REPORT, batch_of, unpack
from rechannel.kernels.tasks import report_table
from rechannel.kernels.tasks.bundle import Bundle
from rechannel.kernels.tasks.load import Load, Scatter
from rechannel.kernels.tasks.report import TaskReport
from rechannel.kernels.tasks.report_table import ReportTable
from rechannel.kernels.tasks.source_task import SourceTask
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.kernels.tasks.unit_report import ReportList, UnitReport, by_operator
from rechannel.model.routing import Routing
from rechannel.sinks.writer import Rows
from rechannel.sources.reader import SourceReader, only
from rechannel.state.store import Store

Parcels = list[tuple[int, bytes]]

Fault = Callable[[str, int, int, int], str | None]
"""(operator, timestep, task, attempt number) -> what goes wrong: None, "before" (the task dies before
it ran), "after" (it dies after it wrote its files: they stay behind), "twice" (a speculative copy
runs as well and wins), or "late" (a copy loses and is still writing when the timestep is over: see
`InProcessRunner.stragglers`). Attempts are counted on where a timestep runs again."""

ATTEMPTS = 4
TRIES_KEPT = 64
"""Timesteps for which it is known how often they were tried."""


def no_faults(operator: str, timestep: int, task: int, attempt: int) -> str | None:
    """Inject no fault."""
    del operator, timestep, task, attempt
    return None


def no_bundles(tasks: int) -> Bundles:
    """Run every task on its own."""
    del tasks
    return ()


class TaskDied(ClusterError):  # noqa: N818
    """An injected task failure."""


@dataclass
class InProcessRunner:
    """Runs units one after the other, with injectable task faults.

    names: makes attempts' names unique; an argument, so that simulations are reproducible.
    arrival: the order in which blobs reach a task, which no exchange promises.
    bundles: returns which of so many tasks with state run as one, as Spark runs short ones; () = none.
    places: where tasks would run.
    injected: how often each fault happened. stragglers: losing attempts that have still to run.
    """

    plan: PhysicalPlan
    programs: Mapping[str, StageProgram]
    readers: Mapping[str, SourceReader]
    store: Store
    names: Callable[[], str]
    fault: Fault = no_faults
    arrival: Callable[[list[bytes]], list[bytes]] = list
    bundles: Callable[[int], Bundles] = no_bundles
    places: Callable[[], Placed] = Placed
    injected: dict[str, int] = field(default_factory=dict)
    stragglers: list[Callable[[], object]] = field(default_factory=list)
    _timesteps: dict[int, Timestep] = field(default_factory=dict)
    _tried: Counter[tuple[str, int]] = field(default_factory=Counter)
    _exchanges: dict[tuple[str, int], Parcels] = field(default_factory=dict)

    def open(self, timestep: Timestep) -> None:
        """Remember what the timestep reads."""
        long_ago = timestep.number - TRIES_KEPT
        for unit in [unit for unit in list(self._tried) if unit[1] < long_ago]:
            del self._tried[unit]
        self._timesteps[timestep.number] = timestep

    def placed(self) -> Placed:
        """Where tasks would run."""
        return self.places()

    def run(self, timestep: int, stage: str, step: StageStep) -> Sequence[UnitReport]:
        """Run all tasks of a unit; keep what they send for their consumers."""
        self._tried[stage, timestep] += 1
        program = self.programs[stage]
        if program.logic is None:
            inputs = self._front_inputs(timestep, stage)
            tasks = [partial(self._front, program, step, i, rows) for i, rows in enumerate(inputs)]
        else:
            inboxes = [self._inbox(stage, timestep, i) for i in range(len(step.tasks))]
            bundles = self.bundles(len(inboxes)) or tuple((i,) for i in range(len(inboxes)))
            tasks = [
                partial(self._stateful, program, step, {i: inboxes[i] for i in bundle})
                for bundle in bundles
            ]
        results = [self._attempts(step, stage, i, task) for i, task in enumerate(tasks)]
        parcels = [parcel for result in results for parcel in result]
        data = [(p, blob) for p, blob in parcels if not _is_report(blob) or p != step.reports_to]
        self._exchanges[stage, timestep] = data
        reports = by_operator(
            TaskReport.from_bytes(unpack(pa.py_buffer(blob)).message.to_pybytes())
            for p, blob in parcels
            if _is_report(blob) and p == step.reports_to
        )
        return [_folded(each) if each.tasks >= report_table.MANY else each for each in reports]

    def _attempts(
        self, step: StageStep, stage: str, task: int, run: Callable[[str], Parcels]
    ) -> Parcels:
        """Run a task until an attempt succeeds, as Spark would."""
        last = self._tried[stage, step.timestep] * ATTEMPTS
        for attempt in range(last - ATTEMPTS, last):
            fault = self.fault(stage, step.timestep, task, attempt)
            if fault is not None:
                self.injected[fault] = self.injected.get(fault, 0) + 1
            if fault == "before":
                continue
            result = run(self.names())
            if fault == "twice":
                result = run(self.names())
            if fault == "late":
                self.stragglers.append(partial(run, self.names()))
            if fault != "after":
                return result
        msg = f"operator {stage!r}: task {task} failed {ATTEMPTS} times in timestep {step.timestep}"
        raise TaskDied(msg)

    def _front(
        self,
        program: StageProgram,
        step: StageStep,
        task: int,
        rows: Callable[[], Iterable[tuple[Order, pa.RecordBatch]]],
        name: str,
    ) -> Parcels:
        front = SourceTask(program=program, step=step, task=task, attempt=name)
        return list(front.parcels(rows()))

    def _stateful(
        self,
        program: StageProgram,
        step: StageStep,
        inboxes: Mapping[int, list[bytes]],
        name: str,
    ) -> Parcels:
        tasks = [StatefulTask(program=program, step=step, task=i, attempt=name) for i in inboxes]
        arrived = [(i, blob) for i, inbox in inboxes.items() for blob in self.arrival(inbox)]
        targets, blobs = [i for i, _ in arrived], [blob for _, blob in arrived]
        batches = [batch_of(targets, blobs)] if arrived else []
        if len(tasks) == 1:
            return list(tasks[0].parcels(batches))
        return list(Bundle(tasks, first=0).parcels(batches))

    def _inbox(self, operator: str, timestep: int, task: int) -> list[bytes]:
        blobs: list[bytes] = []
        for producer in self.plan.stage(operator).producers:
            mine = self._first(producer, operator, timestep) + task
            blobs += [blob for p, blob in self._exchanges[producer, timestep] if p == mine]
        return blobs

    def _first(self, producer: str, operator: str, timestep: int) -> int:
        configuration = self._timesteps[timestep].cut_by
        position = 0
        seen: list[str] = []
        for name, _ in self.plan.stage(producer).consumers:
            if name == operator:
                return position
            if name not in seen:
                seen.append(name)
                position += configuration.operators[name].tasks
        msg = f"{producer!r} does not feed {operator!r}"
        raise KeyError(msg)

    def _front_inputs(
        self, timestep: int, stage: str
    ) -> list[Callable[[], Iterable[tuple[Order, pa.RecordBatch]]]]:
        frame = self.plan.stage(stage).frame
        if not isinstance(frame, SourceFrame):
            msg = f"{stage!r} is a DataFrame function: it needs Spark; use map_batches in process"
            raise DataflowError(msg)
        found = self._timesteps[timestep]
        part = found.slices[frame.source.name]
        reader = self.readers[frame.source.name]
        columns = tuple(self.plan.stage(stage).root.schema.names)
        splits = reader.split_reader(part.start, part.end, list(part.layout))
        splits = only(splits, reader.schema, columns)
        tasks = found.cut_by.operators[stage].tasks
        return [
            lambda chunk=chunk: (  # type: ignore[misc]
                (int(split["order"]), batch) for split in chunk for batch in splits.read(split)
            )
            for chunk in assign(part.layout, tasks)
        ]

    def kept(self, timestep: int, node: str, keys: list[str]) -> None:
        """Do nothing: only DataFrame functions read sink buffers within a timestep."""

    def rows_of(
        self, sink: SinkPlan, timestep: Timestep | None, kept: Mapping[str, list[str]]
    ) -> Rows:
        """Rows of a sink's frame (publishing.RowsOf)."""
        return Rows(
            tables=lambda: self.frame_rows(sink.frame, timestep, kept),
            schema=sink.schema,
        )

    def frame_rows(
        self, frame: Frame, timestep: Timestep | None, kept: Mapping[str, list[str]]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a frame without DataFrame functions, for sinks."""
        if isinstance(frame, SinkBufferFrame):
            yield from sink_buffer_tables(self.store, kept.get(frame.node, []))
        elif isinstance(frame, SourceFrame) and timestep is not None:
            part = timestep.slices[frame.source.name]
            reader = self.readers[frame.source.name]
            splits = reader.split_reader(part.start, part.end, list(part.layout))
            for split in part.layout:
                yield from splits.read(split)
        elif isinstance(frame, UnionFrame):
            for child in frame.children:
                yield from self.frame_rows(child, timestep, kept)
        else:
            msg = "a DataFrame function needs Spark; use map_batches in process"
            raise DataflowError(msg)

    def switch_to(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        readers: Mapping[str, SourceReader],
    ) -> None:
        """Run another version of the dataflow from now on."""
        self.plan, self.programs, self.readers = plan, programs, readers

    def release(self, timestep: int) -> None:
        """Forget a timestep and its shuffles."""
        self._timesteps.pop(timestep, None)
        for unit in [unit for unit in list(self._exchanges) if unit[1] == timestep]:
            del self._exchanges[unit]

    def cancel(self) -> None:
        """Do nothing: no unit runs between calls."""

    def gone(self) -> str | None:
        """This process is always there."""
        return None

    def starved(self) -> str | None:
        """This process takes tasks."""
        return None

    def meaning(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """Errors of this process say themselves what they are."""
        return as_it_is(error, sink, timestep)

    def close(self) -> None:
        """Do nothing: the runner holds no resources."""


def _folded(reports: ReportList) -> ReportTable:
    """Return reports as the driver has them from Spark."""
    return ReportTable.from_bytes(ReportTable.of(reports).to_bytes())


def _parcels(batches: Iterable[pa.RecordBatch]) -> Parcels:
    out: Parcels = []
    for batch in batches:
        out.extend(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
    return out


def _is_report(blob: bytes) -> bool:
    return unpack(pa.py_buffer(blob)).kind == REPORT


@dataclass(frozen=True)
class InProcessLoader:
    """Loads Arrow tables into initial state, in this process."""

    names: Callable[[], str]

    def rows(self, table: pa.Table) -> int:
        """Number of rows."""
        return int(table.num_rows)

    def schema(self, table: pa.Table) -> pa.Schema:
        """Columns."""
        return table.schema

    def load(
        self,
        program: StageProgram,
        step: StageStep,
        table: pa.Table,
        names: tuple[str, ...],
        slices: Routing,
    ) -> list[TaskReport]:
        """Scatter, then write slice after slice."""
        sent = _parcels(Scatter(program, names, slices).run(table.to_batches(), 0))
        out: list[TaskReport] = []
        for number in range(slices.tasks):
            mine = [batch_of([number], [blob]) for p, blob in sent if p == number]
            for _, blob in _parcels(Load(program, step, slices).run(mine, number, self.names())):
                out.append(TaskReport.from_bytes(unpack(pa.py_buffer(blob)).message.to_pybytes()))
        return out
