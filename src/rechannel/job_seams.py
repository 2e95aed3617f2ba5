"""The seams of a job: the real store, clock and processes, on Spark or in this process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.assembly import Clock, Seams
from rechannel.dataflow.graph.nodes import Node, Transform
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.lease import Holder, Lease, process_started
from rechannel.engine.journal.this_driver import this_holder, this_opened
from rechannel.engine.loop.heartbeat import signs
from rechannel.engine.program.physical import SinkPlan
from rechannel.engine.reconfigure.cluster import Cluster, FixedCluster
from rechannel.engine.reconfigure.cluster_preparer import ClusterPreparer
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.reconfigure.preparer import Preparer
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.engine.stages.inprocess import Fault, InProcessLoader, InProcessRunner, no_faults
from rechannel.engine.stages.loading import Loader
from rechannel.engine.stages.runner import Runner
from rechannel.engine.stages.sink_rows import RowsOf
from rechannel.engine.view.state_view import Scan
from rechannel.errors import DataflowError, RefusedError
from rechannel.kernels.protocol.program import TASK_BYTES
from rechannel.model.configuration import Configuration
from rechannel.settings import SLOT_BYTES, Settings
from rechannel.sinks.claims import Ledger
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.spare import open_with_letters
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.connector import SourceContext
from rechannel.sources.reader import SourceReader
from rechannel.state.store import Store
from rechannel.state.stores.local import Durability, directory_of
from rechannel.state.stores.patient import PatientStore
from rechannel.telemetry.driver_hub import open_hub
from rechannel.telemetry.hub import Hub
from rechannel.threads import DaemonThreads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWEEP_EVERY = 16
"""Commits from one sweep of files to the next."""

DELETES = 16
"""Files that a sweep deletes side by side where each is a request over a network."""


def wall_clock() -> float:
    """Unix milliseconds."""
    return time.time() * 1e3


def steady_clock() -> float:
    """Milliseconds that pass, also while the machine sleeps where it can tell; this clock cannot be set."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic() if boot is None else time.clock_gettime(boot)) * 1e3


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """Run without Spark, in this process, with faults of tasks where a test wants them."""

    names: Callable[[], str] = lambda: uuid.uuid4().hex
    """Makes the names of attempts, which have to be unique."""
    fault: Fault = no_faults
    """Says of (operator, timestep, task, attempt) what goes wrong: "before" or "after" = the attempt dies before it
    runs or after it has written; "twice" = it runs twice; "late" = a copy still writes afterwards; None = nothing."""


def job_seams(
    name: str,
    *,
    store: Store,
    settings: Settings,
    clock: Clock,
    spark: SparkSession | None,
    in_process: InProcess | None,
    ended: Holder | None = None,
) -> Seams:
    """Return the seams of a job. ended: see `Lease.acquire`.

    Raises RefusedError where nothing is given that could run tasks.
    """
    if in_process is None and spark is None:
        msg = "a job needs a Spark session or in_process="
        raise RefusedError(msg)
    made = _JobSeams(
        name=name,
        store=store,
        settings=settings,
        clock=clock,
        spark=spark,
        in_process=in_process,
        ended=ended,
    )
    return Seams(
        store=store,
        clock=clock,
        steady=steady_clock if clock is wall_clock else None,
        waits=steady_clock,
        ids=lambda: uuid.uuid4().hex,
        stamp=this_opened,
        acquire=made.acquire,
        opener=made.opener,
        cluster=made.cluster,
        engine=made.engine,
        preparer=made.preparer,
        hub=made.hub,
        bearing=made.bearing,
        journal_writer=DaemonThreads(1, "rechannel-journal"),
        journal_cleaner=DaemonThreads(1, "rechannel-journal-old"),
        signs=signs,
        scan=made.scan(),
        sweep_every=SWEEP_EVERY,
        deletes=DELETES if directory_of(store) is None else 1,
        sized=made.sized,
        session=spark,
    )


@dataclass(frozen=True, kw_only=True)
class _JobSeams:
    name: str
    store: Store
    settings: Settings
    clock: Clock
    spark: SparkSession | None
    in_process: InProcess | None
    ended: Holder | None

    def acquire(self, takeover: bool) -> Lease:
        return Lease.acquire(
            self.store,
            this_holder(),
            clock=lambda: int(wall_clock()),
            started=process_started,
            takeover=takeover,
            ended=self.ended,
        )

    def bearing(
        self, store: Store, stopping: Stopping, tell: Callable[[BaseException | None], None], /
    ) -> Store:
        return PatientStore(
            inner=store,
            patience=self.settings.patience,
            left=stopping.left,
            tell=tell,
            sleep=stopping.sleep,
        )

    # Sources and sinks ---------------------------------------------------------------------------

    def opener(self, owner: Callable[[], str], ledger: Callable[[], Ledger]) -> Opener:
        return Opener(
            store=self.store,
            ask=self._ask,
            reader=lambda source: source.connector.open(
                SourceContext(store=self.store, name=source.name, spark=self.spark)
            ),
            writer=partial(self._writer, owner, ledger),
            loader=self._loader(),
            defaults={"tasks": self._tasks(), "bins": self.settings.bins},
        )

    def _tasks(self) -> int:
        if self.settings.tasks is not None:
            return self.settings.tasks
        return 2 if self.spark is None else _parallelism(self.spark)

    def _ask(
        self, readers: Mapping[str, SourceReader], node: Node, inputs: Sequence[pa.Schema]
    ) -> pa.Schema | None:
        """Columns that only a source or Spark can tell."""
        if node.name in readers:
            return readers[node.name].schema
        if isinstance(node, Transform):
            if self.spark is None:
                msg = (
                    f"{node.name!r} ({node.where}) is a DataFrame function: it needs Spark; "
                    "use map_batches, map or filter with a function to run in process"
                )
                raise DataflowError(msg)
            from rechannel.engine.spark.binding import transform_schema

            return transform_schema(self.spark, node, inputs)
        return None

    def _writer(
        self,
        owner: Callable[[], str],
        ledger: Callable[[], Ledger],
        sink: SinkPlan,
        main: SinkWriter | None,
    ) -> SinkWriter:
        return open_with_letters(
            sink.sink.outlet,
            sink.sink.failure,
            SinkContext(
                job=owner(),
                name=sink.sink.name,
                spark=self.spark,
                sync=self.settings.durability is Durability.POWER,
                ledger=ledger,
                schema=sink.schema,
            ),
            main,
        )

    def _loader(self) -> Loader:
        if self.in_process is not None:
            return InProcessLoader(self.in_process.names)
        from rechannel.engine.spark.loading import SparkLoader

        return SparkLoader()

    # What runs tasks -----------------------------------------------------------------------------

    def sized(self, settings: Settings) -> Settings:
        """The settings with bounds of bytes per timestep and task, by executors' memory where they do not say."""
        most, each = SLOT_BYTES * self._tasks(), TASK_BYTES
        if self.spark is not None:
            from rechannel.engine.spark.memory import task_bytes, timestep_bytes

            most, each = timestep_bytes(self.spark), task_bytes(self.spark)
        return replace(
            settings,
            timestep_bytes=settings.timestep_bytes or most,
            task_bytes=settings.task_bytes or each,
        )

    def cluster(self) -> Cluster:
        if self.spark is None:
            return FixedCluster()
        from rechannel.engine.spark.cluster import spark_cluster

        return spark_cluster(self.spark)

    def engine(self, current: Ready, cluster: Any) -> tuple[Runner, RowsOf]:
        if self.in_process is not None:
            return _in_process(self.in_process, current, self.store)
        from rechannel.engine.spark.inline import InlineRunner
        from rechannel.engine.spark.wiring import spark_runner

        runner, rows_of = spark_runner(
            self.spark,
            current.plan,
            current.program.programs,
            current.readers,
            store=self.store,
            job=self.name,
            cluster=cluster,
        )
        if not self.settings.inline_rows:
            return runner, rows_of
        here, _ = _in_process(InProcess(), current, self.store)
        return InlineRunner(runner, here), rows_of

    def preparer(self, switch: ProgramSwitch, cluster: Any, runner: Any) -> Preparer:
        if self.spark is None:
            return ClusterPreparer(switch=switch, cluster=cluster)
        from rechannel.engine.spark.spark_preparer import spark_preparer

        return spark_preparer(self.spark, switch, cluster, runner.placing)

    # What is seen of it --------------------------------------------------------------------------

    def hub(self, configuration: Configuration, timestep: int) -> Hub:
        directory = directory_of(self.store) if self.settings.telemetry else None
        return open_hub(
            self.name,
            spark=self.spark,
            root=None if directory is None else directory.root,
            clock=self.clock,
            timestep=timestep,
            tasks={name: op.tasks for name, op in configuration.operators.items()},
            backlog=self.settings.publish_backlog,
        )

    def scan(self) -> Scan | None:
        if self.spark is None:
            return None
        from rechannel.engine.spark.scanning import scan_frame

        return partial(scan_frame, self.spark)


def _in_process(how: InProcess, current: Ready, store: Store) -> tuple[InProcessRunner, RowsOf]:
    runner = InProcessRunner(
        current.plan,
        current.program.programs,
        current.readers,
        store,
        names=how.names,
        fault=how.fault,
    )
    return runner, runner.rows_of


def _parallelism(spark: Any) -> int:
    from rechannel.engine.spark.session.session import is_connect

    if is_connect(spark):
        return max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "2")))
    return int(spark.sparkContext.defaultParallelism)
