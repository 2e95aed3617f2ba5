"""Execute stages on Spark: every unit is one job over shared exchanges.

    frame -> source task (mapInArrow) -> exchange (repartitionById) -> stateful task (mapInArrow) -> exchange -> ...

Rows of every exchange are (partition, blob). A stage with downstream stages returns its reports in an extra partition
of its exchange, which the unit's action reads; the action of the last stage reads what its tasks emit.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rechannel.engine.failures.closing import settled
from rechannel.engine.program.physical import (
    ApplyFrame,
    Frame,
    PhysicalPlan,
    SinkBufferFrame,
    SourceFrame,
    Stage,
    UnionFrame,
    leaves,
)
from rechannel.engine.program.steps import layout_of, partitions_of
from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.spark.calls import (
    BLOCK,
    FILE,
    FrameSourceCall,
    NativeSourceCall,
    Shipped,
    StatefulCall,
)
from rechannel.engine.spark.failures import translate, translate_of_sink
from rechannel.engine.spark.jobs import Jobs
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.private import Anchor
from rechannel.engine.spark.reporting import Unit
from rechannel.engine.spark.resubmitting import Resubmitting
from rechannel.engine.spark.session.gateway import gone
from rechannel.engine.spark.stages import Call, Exchange, Rows, Stages
from rechannel.engine.stages.bundles import Bundles, bundles_of
from rechannel.engine.stages.runner import Placed, SourceSlice, Timestep
from rechannel.engine.stages.short_tasks import ShortTasks
from rechannel.engine.stages.sink_buffers import sink_buffer_frame
from rechannel.engine.stages.splits import assign
from rechannel.errors import gone_error
from rechannel.kernels.functions.paths import plain_path
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.model.configuration import OperatorConfiguration, Resources
from rechannel.sources.reader import SourceReader, Split, explained, only
from rechannel.state.store import Store

Profile = Callable[[Resources | None], ResourceProfile | None]


@dataclass
class _Open:
    """What a timestep in flight holds."""

    timestep: Timestep
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    loose: dict[str, Rows] = field(default_factory=dict)
    kept: dict[str, list[str]] = field(default_factory=dict)
    reordered: set[str] = field(default_factory=set)
    """Stages whose tasks may send their rows in another order when they are attempted again."""


@dataclass(frozen=True)
class _Inbox:
    """The blobs for a stateful stage."""

    rows: Rows
    """Partition i is for bundle i, or for task i if there are none."""
    bundles: Bundles
    exchange: Exchange
    """What they come through."""
    first: int
    """Its partition that is for task 0."""


def _into(operator: str) -> str:
    """Name of the exchange that several producers of an operator share."""
    return f"into {operator}"


@dataclass
class SparkRunner:
    """Runs units as Spark jobs."""

    spark: SparkSession
    plan: PhysicalPlan
    programs: Mapping[str, StageProgram]
    readers: Mapping[str, SourceReader]
    store: Store
    stages: Stages
    """Composes calls and exchanges."""
    jobs: Jobs
    job: str
    """Name of the job, for descriptions."""
    keeps_order: Callable[[DataFrame], bool]
    """Returns whether a plan keeps the order of rows."""
    ahead: bool = False
    """With several timesteps in flight, start source stages at once, not with their first reader."""
    placing: Placing | None = None
    """Places tasks where their state is cached; None lets Spark choose."""
    resubmitting: Resubmitting | None = None
    """Submits jobs again that read from a lost executor; None leaves that to Spark."""
    profile: Profile = field(default=lambda resources: None)
    """Turns an operator's resources into Spark's resource profile."""
    executors: Callable[[], Sequence[Executor]] | None = None
    """Those that take tasks; None where the driver runs them, or where they are not known."""
    cores: int = 0
    """Cores where no tasks are placed; 0 = not known."""
    task_cpus: int = 1
    """Cores that a task takes."""
    tag: str = field(default_factory=lambda: f"rechannel-{uuid.uuid4().hex}")
    """Of this runner's jobs alone: others in the session may run a job of the same name."""
    _open: dict[int, _Open] = field(default_factory=dict)
    _shipped: dict[str, Shipped] = field(default_factory=dict)
    _short: ShortTasks = field(default_factory=ShortTasks)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, timestep: Timestep) -> None:
        """Remember what the timestep reads, and update the executors."""
        self._open[timestep.number] = _Open(timestep)
        if self.placing is not None:
            self.placing.look(timestep.configuration.executors)

    def run(self, timestep: int, stage: str, step: StageStep) -> Sequence[UnitReport]:
        """Plan the unit and, unless a later unit's job will run it, run it."""
        self.jobs.describe(f"rechannel:{self.job}:{timestep}:{stage}")
        self.jobs.tag(self.tag)
        try:
            reports = self._run(self._open[timestep], self.plan.stage(stage), step)
            self._short.learn(reports)
            return reports
        except Exception as error:
            self._short.forget()
            known = explained(error, self.readers.values())
            raise known or translate(error, stage, timestep) from error
        finally:
            self.jobs.untag(self.tag)

    def shipped(self) -> list[Shipped]:
        """Return all programs as workers get them."""
        return [self._ship(name) for name in list(self.programs)]

    def placed(self) -> Placed:
        """Where tasks run."""
        return Placed() if self.placing is None else self.placing.placed

    def _run(self, held: _Open, stage: Stage, step: StageStep) -> Sequence[UnitReport]:
        inputs: list[Exchange] = []
        if stage.logic is None:
            rows = self._source_rows(held, stage, step)
        else:
            if stage.logic.ordered and held.reordered.intersection(stage.producers):
                held.reordered.add(stage.name)
                step = replace(step, repeats=False)
            inbox = self._inbox(held, stage)
            call = StatefulCall(self._ship(stage.name), step, inbox.bundles, inbox.first)
            rows = self._map(held, stage, inbox.rows, call)
            inputs.append(inbox.exchange)
        if not stage.consumers:
            return self._reports(held, stage, rows, inputs)
        if stage.reports_apart:
            last = partitions_of(stage, held.timestep.configuration)
            exchange = self.stages.exchange(rows, last + 1)
            held.exchanges[stage.name] = exchange
            reports = exchange.read(last, last + 1)
            return self._reports(held, stage, reports, inputs, apart=True)
        if self._joins_others(stage) and self._profile(held, stage) is None:
            held.loose[stage.name] = rows
            self._submit_joint(held, stage)
            return []
        partitions = partitions_of(stage, held.timestep.configuration)
        exchange = self.stages.exchange(rows, partitions)
        held.exchanges[stage.name] = exchange
        if self.ahead and held.timestep.configuration.in_flight > 1:
            exchange.submit()
        return []

    def _reports(
        self,
        held: _Open,
        stage: Stage,
        rows: Rows,
        inputs: Sequence[Exchange],
        *,
        apart: bool = False,
    ) -> Sequence[UnitReport]:
        """Run the unit's job and return its reports. See `reporting.Unit`."""
        unit = Unit(
            tasks=held.timestep.configuration.operators[stage.name].tasks,
            rows=rows,
            inputs=inputs,
            apart=apart,
            keep=partial(held.exchanges.__setitem__, f"reports of {stage.name}"),
        )
        return unit.run(self.stages, self.resubmitting)

    def _map(self, held: _Open, stage: Stage, rows: Rows, call: Call) -> Rows:
        return self.stages.call(rows, call, self._profile(held, stage))

    def _profile(self, held: _Open, stage: Stage) -> ResourceProfile | None:
        return self.profile(held.timestep.configuration.operators[stage.name].resources)

    def _joins_others(self, stage: Stage) -> bool:
        """Return whether all rows go to one operator that has other producers too: they share one exchange."""
        operators = {operator for operator, _ in stage.consumers}
        return len(operators) == 1 and len(self.plan.stage(operators.pop()).producers) > 1

    def _inbox(self, held: _Open, stage: Stage) -> _Inbox:
        """Return what a stateful stage reads; each partition is computed where its tasks are placed."""
        operator = held.timestep.configuration.operators[stage.name]
        ranges = [self._range(held, name, stage.name) for name in stage.producers]
        exchange, first = ranges[0]
        if len(ranges) > 1 or exchange is None:
            exchange, first = self._joint(held, stage), 0
        bundles, anchor = self._bundles(held, stage)
        rows = exchange.read_bundles(bundles, first, anchor) if bundles else None
        if rows is not None:
            return _Inbox(rows, bundles, exchange, first)
        anchor = None if self.placing is None else self.placing.anchor(stage.name, operator)
        rows = exchange.read(first, first + operator.tasks, anchor)
        return _Inbox(rows, (), exchange, first)

    def _bundles(self, held: _Open, stage: Stage) -> tuple[Bundles, Anchor | None]:
        """Return bundles of the tasks of a stateful stage if they are short, and where these run; else none."""
        operator = held.timestep.configuration.operators[stage.name]
        sizes = {name: _size_of(part.layout) for name, part in held.timestep.slices.items()}
        at_once = self._at_once(operator)
        number = self._short.number(stage.name, operator.tasks, at_once, sizes)
        if number == operator.tasks:
            return (), None
        if self.placing is None:
            return bundles_of(operator.tasks, number), None
        return self.placing.bundles(stage.name, operator, number / at_once / self.task_cpus)

    def _at_once(self, operator: OperatorConfiguration) -> int:
        """Return how many tasks run at once; 0 = not known."""
        cores = self.cores if self.placing is None else self.placing.cores
        return 0 if operator.resources else cores // self.task_cpus

    def _joint(self, held: _Open, stage: Stage) -> Exchange:
        """Return the exchange that several producers of a stateful stage share, all of which are planned."""
        tasks = held.timestep.configuration.operators[stage.name].tasks
        with self._lock:
            known = held.exchanges.get(_into(stage.name))
            if known is not None:
                return known
            ranges = [self._range(held, name, stage.name) for name in stage.producers]
            parts = [
                (held.loose[name] if shared is None else shared.read(first, first + tasks), first)
                for name, (shared, first) in zip(stage.producers, ranges, strict=True)
            ]
            exchange = self.stages.exchange(self.stages.joined(parts), tasks)
            held.exchanges[_into(stage.name)] = exchange
        return exchange

    def _submit_joint(self, held: _Open, stage: Stage) -> None:
        """Start the exchange that a stage shares with other producers, once all of them are planned."""
        if not self.ahead or held.timestep.configuration.in_flight == 1:
            return
        ((operator, _), *_) = stage.consumers
        consumer = self.plan.stage(operator)
        known = held.exchanges.keys() | held.loose.keys()
        if known.issuperset(consumer.producers):
            self._joint(held, consumer).submit()

    def _range(self, held: _Open, producer: str, consumer: str) -> tuple[Exchange | None, int]:
        layout = layout_of(self.plan.stage(producer), held.timestep.configuration)
        first = next(first for (name, _), (first, _) in layout.items() if name == consumer)
        return held.exchanges.get(producer), first

    def _source_rows(self, held: _Open, stage: Stage, step: StageStep) -> Rows:
        frame = stage.frame
        shipped = self._ship(stage.name)
        if isinstance(frame, SourceFrame) and self.readers[frame.source.name].native:
            part = held.timestep.slices[frame.source.name]
            tasks = self._source_tasks(held, stage, part.layout)
            splits = tuple(tuple(chunk) for chunk in assign(part.layout, tasks))
            source = self.readers[frame.source.name]
            step = replace(step, repeats=source.repeats)
            reader = source.split_reader(part.start, part.end, list(part.layout))
            reader = only(reader, source.schema, tuple(stage.root.schema.names))
            call = NativeSourceCall(shipped, step, reader, splits)
            anchor = None if self.placing is None else self.placing.away_from_new(len(splits))
            return self._map(held, stage, self.stages.numbers(len(splits), anchor), call)
        if frame is None:
            msg = f"stage {stage.name!r} reads nothing"
            raise ValueError(msg)
        rows = self._frame(held.timestep.slices, held.kept, frame)
        order, files = "task", dict[str, int]()
        if stage.root.feeds_ordered():
            rows, order, files = self._with_origin(held, frame, rows)
        names = [*stage.root.schema.names, *((FILE, BLOCK) if order == "file" else ())]
        if names != rows.columns:
            rows = rows.select(*(f"`{name.replace('`', '``')}`" for name in names))
        if order == "rows":
            held.reordered.add(stage.name)
            step = replace(step, repeats=False)
        return self._map(held, stage, rows, FrameSourceCall(shipped, step, order, files))

    def _source_tasks(self, held: _Open, stage: Stage, layout: Sequence[Split]) -> int:
        """Return how many tasks read splits: fewer than there could be if they are short."""
        operator = held.timestep.configuration.operators[stage.name]
        at_once = self._at_once(operator)
        sizes = {stage.name: _size_of(layout)}
        return self._short.number(stage.name, operator.tasks, at_once, sizes)

    def _with_origin(
        self, held: _Open, frame: Frame, rows: DataFrame
    ) -> tuple[DataFrame, str, dict[str, int]]:
        """Add hidden columns with the file and block of a row, if they define the order of rows.

        Spark also knows the file after a shuffle, but there the order differs from run to run. In that case, and if
        there is no file, rows are sorted by their own hash.
        """
        origins = list(leaves(frame))
        if len(origins) == 1 and isinstance(origins[0], SourceFrame) and self.keeps_order(rows):
            layout = held.timestep.slices[origins[0].source.name].layout
            files = {plain_path(str(s["file"])): i for i, s in enumerate(layout) if "file" in s}
            try:
                located = rows.select(
                    "*",
                    F.col("_metadata.file_path").alias(FILE),
                    F.col("_metadata.file_block_start").alias(BLOCK),
                )
                _ = located.schema
            except AnalysisException:
                return rows, "rows", {}
            return located, "file", files
        return rows, "rows", {}

    def _frame(
        self, slices: Mapping[str, SourceSlice], kept: Mapping[str, list[str]], frame: Frame
    ) -> DataFrame:
        if isinstance(frame, SourceFrame):
            part = slices[frame.source.name]
            made: DataFrame = self.readers[frame.source.name].frame(
                self.spark, part.start, part.end, list(part.layout)
            )
            return made
        if isinstance(frame, SinkBufferFrame):
            keys = kept.get(frame.node, [])
            return sink_buffer_frame(self.spark, keys, self.store, frame.schema)
        if isinstance(frame, ApplyFrame):
            return frame.transform.function(self._frame(slices, kept, frame.child))
        assert isinstance(frame, UnionFrame)  # noqa: S101 - the last member of the union type
        joined = self._frame(slices, kept, frame.children[0])
        for child in frame.children[1:]:
            joined = joined.unionByName(self._frame(slices, kept, child))
        return joined

    def frame(
        self, frame: Frame, timestep: Timestep | None, kept: Mapping[str, list[str]]
    ) -> DataFrame:
        """Return the rows of a frame, for sinks. timestep: only needed for frames over sources."""
        slices = {} if timestep is None else timestep.slices
        return self._frame(slices, kept, frame)

    def kept(self, timestep: int, node: str, keys: list[str]) -> None:
        """Remember the sink-buffer files of a node."""
        self._open[timestep].kept[node] = keys

    def _ship(self, stage: str) -> Shipped:
        with self._lock:
            if stage not in self._shipped:
                self._shipped[stage] = Shipped.of(self.programs[stage])
            return self._shipped[stage]

    def switch_to(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        readers: Mapping[str, SourceReader],
    ) -> None:
        """Switch to another version of the dataflow; programs that stay are not shipped again."""
        with self._lock:
            same = {name for name, new in programs.items() if self.programs.get(name) is new}
            self._shipped = {name: s for name, s in self._shipped.items() if name in same}
            self.plan, self.programs, self.readers = plan, programs, readers
        if self.placing is not None:
            self.placing.forget(all_but={stage.name for stage in plan.stages})

    def release(self, timestep: int) -> None:
        """Delete the timestep's shuffles."""
        held = self._open.pop(timestep, None)
        for exchange in held.exchanges.values() if held else ():
            exchange.release()

    def cancel(self) -> None:
        """Cancel every job of this dataflow."""
        if self.resubmitting is not None:
            self.resubmitting.stop()
        self.jobs.cancel(self.tag)

    def gone(self) -> str | None:
        """Return why nothing can run any more if Spark's JVM has died; None while it lives."""
        return gone(self.spark)

    def starved(self) -> str | None:
        """Return that there is no executor, which Spark waits for without a word and without a bound."""
        if self.executors is None or self.executors():
            return None
        return "no executor takes tasks"

    def meaning(self, error: BaseException, sink: str, timestep: int) -> BaseException:
        """Return what an error of a sink means (see `Meaning`): a dead JVM first, then what a source knows."""
        if not isinstance(error, Exception):
            return error
        why = settled(error, self.gone)
        made = gone_error(why) if why is not None else explained(error, self.readers.values())
        if made is None:
            return translate_of_sink(error, sink, timestep)
        made.__cause__ = error
        return made

    def close(self) -> None:
        """Release what is still open."""
        if self.placing is not None:
            self.placing.close()
        for timestep in list(self._open):
            self.release(timestep)


def _size_of(layout: Iterable[Split]) -> float:
    """Return the size of splits: rows, bytes or whatever their source counts, if only splits."""
    return sum(float(split.get("size", 1)) for split in layout)
