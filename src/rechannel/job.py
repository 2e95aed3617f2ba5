"""The front hall: the only file that wires the rooms together.

A `Job` is a dataflow with a name and a state directory; `start()` checks everything, opens the journal and returns a
`RunningJob`, the handle on what runs.
"""

from __future__ import annotations

import os
import platform
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.dataflow.check import check, fingerprint
from rechannel.dataflow.graph import Dataflow, Node, Stateful, Transform
from rechannel.dataflow.picture import draw_text
from rechannel.dataflow.schema import resolve
from rechannel.dataflow.stream import Stream, dataflow_of, one_session
from rechannel.dataflow.svg import draw_svg
from rechannel.dataflow.writer import Flow
from rechannel.engine.driver import Driver
from rechannel.engine.entries import Note, Opened
from rechannel.engine.housekeeping import Housekeeper
from rechannel.engine.identity import Identity
from rechannel.engine.inprocess import Fault, InProcessLoader, InProcessRunner, no_faults
from rechannel.engine.journal import Journal
from rechannel.engine.lease import Holder, Lease, process_started
from rechannel.engine.loading import Loader, load_initial
from rechannel.engine.physical import PhysicalPlan, SinkPlan, compile_plan
from rechannel.engine.programs import programs_of
from rechannel.engine.publishing import Publisher, RowsOf
from rechannel.engine.runner import Runner, Timestep
from rechannel.engine.state_view import StateView
from rechannel.engine.steps import first_configuration
from rechannel.errors import DataflowError, RefusedError
from rechannel.model.configuration import Configuration
from rechannel.running import Parts, RunningJob
from rechannel.settings import Settings
from rechannel.sinks.open import open_sink
from rechannel.sinks.writer import Rows, SinkWriter
from rechannel.sources.open import open_source
from rechannel.sources.reader import SourceReader
from rechannel.state.local import Durability, LocalStore
from rechannel.state.store import Store
from rechannel.telemetry.hub import Hub
from rechannel.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Clock = Callable[[], float]
SWEEP_EVERY = 16


def wall_clock() -> float:
    """Unix milliseconds."""
    return time.time() * 1e3


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """Run without Spark, in this process, with injectable faults: what `rechannel.testing` uses."""

    names: Callable[[], str] = lambda: uuid.uuid4().hex
    fault: Fault = no_faults


class Job:
    """A dataflow, its name and its state directory. Making one runs nothing and checks what can be checked."""

    def __init__(
        self,
        name: str,
        flows: Flow | Stream | Sequence[Flow | Stream],
        *,
        state: str | os.PathLike[str] | Store,
        settings: Settings | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        """Check the dataflow.

        name: of the job, in messages and files. flows: one or several ends (`stream.write...`, or an
        operator whose state is
        queried only). state: a directory of its own, on a file system that all executors see. Raises DataflowError.
        """
        if not name or not isinstance(name, str):
            msg = f"a job needs a name, not {name!r}"
            raise DataflowError(msg)
        ends = [flows] if isinstance(flows, Flow | Stream) else list(flows)
        self.name = name
        self.dataflow = dataflow_of(*ends)
        self.settings = settings or Settings()
        self._spark = spark if spark is not None else one_session(*ends)
        self._store = state if isinstance(state, Store) else _local_store(state, self.settings)
        check(self.dataflow, _dumps)

    def picture(self) -> str:
        """The dataflow as text."""
        return draw_text(self.dataflow)

    def svg(self) -> str:
        """The dataflow as a standalone SVG."""
        return draw_svg(self.dataflow)

    def start(
        self,
        *,
        takeover: bool = False,
        clock: Clock = wall_clock,
        in_process: InProcess | None = None,
    ) -> RunningJob:
        """Open the state directory, recover what an earlier driver left, and run in a thread.

        takeover: fence a driver that still runs on this directory instead of being refused. in_process: run
        without Spark.
        Raises StateInUseError, OtherDataflowError, NewerFormatError, DamagedStateError, DataflowError, JavaError.
        """
        spark = None if in_process else self._session()
        return _Assembly(self, self._store, spark, clock, in_process).start(takeover=takeover)

    def _session(self) -> SparkSession:
        if self._spark is not None:
            return self._spark
        from rechannel.engine.spark.session import session

        made: SparkSession = session()
        return made


class _Assembly:
    """Opens everything a job needs, in an order in which a refusal leaves nothing behind."""

    def __init__(
        self,
        job: Job,
        store: Store,
        spark: SparkSession | None,
        clock: Clock,
        in_process: InProcess | None,
    ) -> None:
        self.job = job
        self.store = store
        self.spark = spark
        self.clock = clock
        self.in_process = in_process
        self.readers: dict[str, SourceReader] = {}
        self.writers: dict[str, SinkWriter] = {}

    def start(self, *, takeover: bool) -> RunningJob:
        settings, dataflow = self.job.settings, self.job.dataflow
        self._open_sources(dataflow)
        schemas = resolve(dataflow, self._ask)
        logics = {
            node.name: node.spec.bind(node.keys, schemas[node.upstream.name])
            for node in dataflow.nodes
            if isinstance(node, Stateful)
        }
        self.plan: PhysicalPlan = compile_plan(dataflow, schemas, logics)
        self.programs = programs_of(self.plan, self.store)
        identity = Identity(name=self.job.name, operators=fingerprint(dataflow, schemas))
        lease = self._lease(takeover=takeover)
        try:
            identity.claim(self.store)
            self.journal, _ = Journal.open(
                self.store,
                keep_versions=settings.keep_versions,
                snapshot_every=settings.snapshot_every,
            )
            self.journal.append(self._opened(identity))
            if isinstance(self.store, LocalStore):
                self.store.sweep_temporaries()
            return self._run(lease)
        except BaseException:
            lease.release()
            raise

    def _open_sources(self, dataflow: Dataflow) -> None:
        for node in dataflow.nodes:
            connector = getattr(node, "connector", None)
            if connector is not None:
                self.readers[node.name] = open_source(
                    connector, store=self.store, name=node.name, spark=self.spark
                )

    def _ask(self, node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
        """Columns that only a source or Spark can tell."""
        if node.name in self.readers:
            return self.readers[node.name].schema
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

    def _lease(self, *, takeover: bool) -> Lease:
        pid = os.getpid()
        holder = Holder(
            host=socket.gethostname(),
            pid=pid,
            started_ms=process_started(pid) or 0,
            epoch=0,
            heartbeat_ms=0,
        )
        return Lease.acquire(
            self.store,
            holder,
            clock=lambda: int(wall_clock()),
            started=process_started,
            takeover=takeover,
        )

    def _opened(self, identity: Identity) -> Opened:
        return Opened(
            host=socket.gethostname(),
            pid=os.getpid(),
            time_ms=int(self.clock()),
            fingerprint=str(sorted(identity.operators.items())),
            version=__version__,
        )

    def _owner(self) -> str:
        """A word that tells this state directory from all others, for ever; drawn at its first start."""
        known = self.journal.state.notes.get("owner")
        if known is None:
            known = uuid.uuid4().hex
            self.journal.append(Note(kind="owner", body=known))
        return f"{self.job.name}-{known}"

    def _run(self, lease: Lease) -> RunningJob:
        settings = self.job.settings
        owner = self._owner()
        for sink in self.plan.sinks:
            self.writers[sink.sink.name] = open_sink(
                sink.sink.outlet,
                job=owner,
                name=sink.sink.name,
                spark=self.spark,
                sync=settings.durability is Durability.POWER,
            )
        configuration = self._configuration()
        self._load(configuration)
        runner, rows_of = self._engine()
        hub = self._hub(configuration)
        publisher = Publisher(
            sinks=self.plan.sinks,
            writers=self.writers,
            rows_of=rows_of,
            journal=self.journal,
            backlog=settings.publish_backlog,
            tell=hub.published,
        )
        self.housekeeper = Housekeeper(self.store, self.journal, SWEEP_EVERY)
        driver = Driver(
            plan=self.plan,
            journal=self.journal,
            runner=runner,
            readers=self.readers,
            publisher=publisher,
            configuration=configuration,
            settings=settings,
            clock=self.clock,
            listener=hub,
            housekeep=self.housekeeper.tick,
        )
        view = StateView(self.plan, self.programs, self.spark)
        return RunningJob(
            Parts(
                name=self.job.name,
                plan=self.plan,
                journal=self.journal,
                readers=self.readers,
                writers=self.writers,
                housekeeper=self.housekeeper,
                driver=driver,
                lease=lease,
                hub=hub,
                view=view,
            )
        )

    def _load(self, configuration: Configuration) -> None:
        loader: Loader
        if self.in_process is not None:
            loader = InProcessLoader(self.in_process.names)
        else:
            from rechannel.engine.spark.loading import SparkLoader

            loader = SparkLoader()
        load_initial(
            self.plan, self.programs, self.journal, configuration, loader, int(self.clock())
        )

    def _hub(self, configuration: Configuration) -> Hub:
        complete = None
        written = self.job.settings.telemetry and isinstance(self.store, LocalStore)
        if self.spark is not None and written:
            from rechannel.telemetry.spark_tasks import open_spark_tasks

            tasks = open_spark_tasks(self.spark)
            complete = None if tasks is None else tasks.complete
        return Hub(
            self.job.name,
            engine="in-process" if self.spark is None else "spark",
            directory=self.store.root / "telemetry"
            if written and isinstance(self.store, LocalStore)
            else None,
            complete=complete,
            clock=self.clock,
            timestep=(self.journal.state.last_committed or 0) + 1,
            tasks={name: op.tasks for name, op in configuration.operators.items()},
            versions=self._versions(),
        )

    def _versions(self) -> dict[str, str]:
        versions = {"rechannel": __version__, "python": platform.python_version()}
        return versions if self.spark is None else {**versions, "spark": self.spark.version}

    def _configuration(self) -> Configuration:
        settings = self.job.settings
        tasks = settings.tasks
        if tasks is None:
            tasks = 2 if self.spark is None else _parallelism(self.spark)
        return first_configuration(
            self.plan,
            tasks=tasks,
            bins=settings.bins,
            interval_ms=settings.interval_ms,
            in_flight=settings.in_flight,
        )

    def _engine(self) -> tuple[Runner, RowsOf]:
        if self.in_process is not None:
            return self._in_process(self.in_process)
        if self.spark is None:
            msg = "a job needs a Spark session or in_process="
            raise RefusedError(msg)
        from rechannel.engine.spark.wiring import spark_runner

        return spark_runner(
            self.spark,
            self.plan,
            self.programs,
            self.readers,
            job=self.job.name,
            ahead=self.job.settings.in_flight > 1,
        )

    def _in_process(self, how: InProcess) -> tuple[Runner, RowsOf]:
        runner = InProcessRunner(
            self.plan, self.programs, self.readers, names=how.names, fault=how.fault
        )

        def rows_of(
            sink: SinkPlan, decided: Timestep | None, kept: Mapping[str, list[str]]
        ) -> Rows:
            return Rows(
                frame=None,
                tables=lambda: runner.frame_rows(sink.frame, decided, kept),
                schema=sink.schema,
            )

        return runner, rows_of


def _local_store(state: str | os.PathLike[str], settings: Settings) -> Store:
    text = os.fspath(state)
    if "://" in text:
        msg = (
            f"state directory {text!r}: only file systems that every executor mounts are supported"
        )
        raise RefusedError(msg)
    return LocalStore(Path(text).absolute(), settings.durability)


def _dumps(value: Any) -> bytes:
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def _parallelism(spark: Any) -> int:
    from rechannel.engine.spark.session import is_connect

    if is_connect(spark):
        return max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "2")))
    return int(spark.sparkContext.defaultParallelism)
