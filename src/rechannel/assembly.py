"""Puts a job together: the only file that wires the rooms."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.dataflow.graph import Dataflow, Node, Transform
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.entries import Note, Opened
from rechannel.engine.journal.lease import Lease, process_started
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.this_driver import ledger_of, this_holder, this_opened
from rechannel.engine.loop.driver import Driver
from rechannel.engine.loop.housekeeping import Housekeeper
from rechannel.engine.program.identity import Identity
from rechannel.engine.program.opening import opening
from rechannel.engine.program.physical import SinkPlan
from rechannel.engine.program.restarting import elsewhere
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.versions import NOTE, Program, current_record, start_program
from rechannel.engine.program.withdrawal import described, held_back, withdrawal
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.cluster import Cluster, FixedCluster
from rechannel.engine.reconfigure.history import History
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.preparer import Preparer
from rechannel.engine.reconfigure.preparing import ClusterPreparer
from rechannel.engine.reconfigure.switch import Opener, ProgramSwitch, Ready
from rechannel.engine.stages.inprocess import Fault, InProcessLoader, InProcessRunner, no_faults
from rechannel.engine.stages.loading import Loader, Tables, initial_state, load_initial
from rechannel.engine.stages.runner import Runner
from rechannel.engine.stages.sink_rows import RowsOf
from rechannel.engine.view.pinned import Pinned
from rechannel.engine.view.state_view import Scan, StateView
from rechannel.errors import DataflowError, RefusedError
from rechannel.kernels.protocol.program import TASK_BYTES
from rechannel.model.configuration import Configuration
from rechannel.running import Parts, RunningJob
from rechannel.settings import SLOT_BYTES, Settings
from rechannel.sinks.claims import Ledger
from rechannel.sinks.open import open_with_letters
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.open import open_source
from rechannel.sources.reader import SourceReader
from rechannel.state.local import Durability, directory_of
from rechannel.state.opening import check_keys
from rechannel.state.patient import PatientStore
from rechannel.state.store import Store
from rechannel.telemetry.hub import STORE, Hub
from rechannel.telemetry.opening import open_hub

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

Clock = Callable[[], float]
SWEEP_EVERY = 16
OWNER = "owner"
"""Kind of the note with a word that tells this state directory from all others, for ever."""


def wall_clock() -> float:
    """Unix milliseconds."""
    return time.time() * 1e3


def steady_clock() -> float:
    """Milliseconds that pass, also while the machine sleeps where it can tell; this clock cannot be set."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic() if boot is None else time.clock_gettime(boot)) * 1e3


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """Run without Spark, in this process, with injectable faults: what `rechannel.testing` uses."""

    names: Callable[[], str] = lambda: uuid.uuid4().hex
    fault: Fault = no_faults


@dataclass(kw_only=True)
class Assembly:
    """Opens everything a job needs, in an order in which a refusal leaves nothing behind."""

    name: str
    dataflow: Dataflow
    settings: Settings
    store: Store
    spark: SparkSession | None
    clock: Clock
    in_process: InProcess | None
    migrations: Sequence[Callable[..., Any]] = ()
    remove_later_output: bool = False
    _opening: str = field(default="", init=False)
    """Id of this driver's `Opened`; "" until that is journalled."""

    def start(
        self,
        *,
        takeover: bool,
        revert: bool,
        mended: bool = False,
        replan: bool = False,
        fresh: Collection[str] = (),
        without: Collection[str] = (),
    ) -> RunningJob:
        """Open, recover, run.

        Whatever can be refused comes before this driver takes over, and what may fail then before anything is
        journalled that means something.
        """
        check_keys(self.store)
        opener = self._opener()
        readers = opener.readers(self.dataflow, {})
        schemas = opener.schemas(self.dataflow, readers)
        lease = self._lease(takeover=takeover)
        with ExitStack() as undo:
            undo.callback(lease.release)
            self.journal, state = Journal.open(
                self.store,
                keep_versions=self.settings.keep_versions,
                snapshot_every=self.settings.snapshot_every,
            )
            lease.watch(lambda: self.journal.state.number)
            made = partial(
                start_program,
                self.dataflow,
                schemas,
                self.store,
                revert=revert,
                mended=mended,
                fresh=fresh,
                without=without,
                migrations=self.migrations,
            )
            program = made(state)
            identity = Identity(name=self.name, operators=program.record["operators"])
            changed = NOTE in state.notes
            identity.check(self.store, changed=changed)
            configuration = self._first(program, opener)
            opening(state, program, configuration, int(self.clock()))  # refuses here, or nowhere
            tables = initial_state(program.plan, program.programs, state, opener.loader)
            if OWNER not in state.notes:  # no driver was here before: sinks are claimed in its name
                self._take_over(identity)
            writers = opener.writers(program.plan)
            if not self._opening and self._take_over(identity):
                program = made(self.journal.state)
            for writer in writers.values():
                writer.begin()
            if (directory := directory_of(self.store)) is not None:
                directory.sweep_temporaries()
            current = Ready(program=program, readers=readers, writers=writers)
            cluster = self._cluster()
            engine = self._engine(current, cluster)
            hub = self._hub(configuration)
            undo.callback(hub.close)
            identity.claim(self.store, changed=changed)
            self._withdraw(replan=replan, back=program.back is not None)
            self._begin(current, configuration, opener, tables)
            parts = (cluster, *engine, hub)
            running = self._run(lease, opener, current, configuration, parts)
            undo.pop_all()
        return running

    # Seams to the outside ------------------------------------------------------------------------

    def _opener(self) -> Opener:
        return Opener(
            store=self.store,
            ask=self._ask,
            reader=lambda node: open_source(
                getattr(node, "connector"),  # noqa: B009 - asked for of nodes that have one
                store=self.store,
                name=node.name,
                spark=self.spark,
            ),
            writer=self._writer,
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

    def _writer(self, sink: SinkPlan, main: SinkWriter | None) -> SinkWriter:
        return open_with_letters(
            sink.sink.outlet,
            sink.sink.failure,
            job=self._owner(),
            name=sink.sink.name,
            spark=self.spark,
            sync=self.settings.durability is Durability.POWER,
            ledger=self._ledger,
            schema=sink.schema,
            main=main,
        )

    def _owner(self) -> str:
        return f"{self.name}-{self.journal.state.notes[OWNER]}"

    def _ledger(self) -> Ledger:
        journal = self.journal  # until it is this driver's, the one before may still publish
        state = journal.state if self._opening else journal.latest()
        return ledger_of(state, self._opening, remove_later=self.remove_later_output)

    def _take_over(self, identity: Identity) -> bool:
        """Fence the driver before; whether it has written since the journal was read."""
        read, opened = self.journal.state.number, self._opened(identity)
        after = self.journal.append(opened)
        self._opening = opened.id
        if OWNER not in after.notes:
            self.journal.append(Note(kind=OWNER, body=uuid.uuid4().hex))
        return after.number > read + 1

    def _lease(self, *, takeover: bool) -> Lease:
        return Lease.acquire(
            self.store,
            this_holder(),
            clock=lambda: int(wall_clock()),
            started=process_started,
            takeover=takeover,
        )

    def _withdraw(self, *, replan: bool, back: bool) -> None:
        state, after = self.journal.state, self.settings.replan_after
        withdrawn = withdrawal(state, replan=replan, after=after, back=back)
        if withdrawn is not None:
            _LOG.warning("job %r: %s", self.name, described(state, withdrawn))
            self.journal.append(withdrawn)
        elif why := held_back(state, after):
            _LOG.warning("job %r: %s", self.name, why)

    def _opened(self, identity: Identity) -> Opened:
        return this_opened(
            fingerprint=str(sorted(identity.operators.items())),
            time_ms=int(self.clock()),
            id=uuid.uuid4().hex[:16],
        )

    # Putting together ----------------------------------------------------------------------------

    def _unheeded(self, fresh: Configuration) -> list[str]:
        state = self.journal.state
        if not state.configurations:
            return []
        held = state.configuration_at((state.last_intended or 0) + 1)
        return self.settings.unheeded(held, fresh)

    def _first(self, program: Program, opener: Opener) -> Configuration:
        return first_configuration(
            program.plan,
            interval_ms=self.settings.interval_ms,
            in_flight=self.settings.in_flight,
            **opener.defaults,
        )

    def _begin(
        self, current: Ready, configuration: Configuration, opener: Opener, tables: Tables
    ) -> None:
        """Journal what this program means, and the state that it begins with."""
        program, now_ms = current.program, int(self.clock())
        moved = elsewhere(self.dataflow, current_record(self.journal.state))
        for body in opening(self.journal.state, program, configuration, now_ms):
            self.journal.append(body)
        told_back = () if program.back is None else (program.back.told(),)
        for sentence in (*moved, *told_back, *self._unheeded(configuration)):
            _LOG.warning("job %r: %s", self.name, sentence)
        load_initial(tables, program.programs, self.journal, configuration, opener.loader, now_ms)

    def _run(
        self,
        lease: Lease,
        opener: Opener,
        current: Ready,
        configuration: Configuration,
        parts: tuple[Cluster, Runner, RowsOf, Hub],
    ) -> RunningJob:
        program, settings, (cluster, runner, rows_of, hub) = current.program, self.settings, parts
        stopping = Stopping(settings.patience.stop_seconds)
        patient = PatientStore(
            inner=self.store,
            patience=settings.patience,
            left=stopping.left,
            tell=partial(hub.troubles, STORE),
            sleep=stopping.sleep,
        )
        self.journal.write_through(patient)
        publisher = Publisher(
            sinks=current.plan.sinks,
            writers=current.writers,
            rows_of=rows_of,
            journal=self.journal,
            backlog=settings.publish_backlog,
            tell=hub.published,
            trouble=hub.troubles,
            stopping=stopping,
            meaning=runner.meaning,
        )
        view = StateView(current.plan, program.programs, self._scan())
        exchange = ProgramSwitch(
            current=current,
            runner=runner,
            publisher=publisher,
            view=view,
            state=lambda: self.journal.state,
        )
        held = Pinned()
        housekeeper = Housekeeper(
            self.store,
            self.journal,
            SWEEP_EVERY,
            lambda: exchange.filling,
            held.files,
            trouble=hub.troubles,
        )
        measured = Measured(lambda: self.journal.state.manifests)
        driver = Driver(
            exchange=exchange,
            journal=self.journal,
            runner=runner,
            publisher=publisher,
            configuration=configuration,
            settings=self._sized(settings),
            clock=self.clock,
            steady=steady_clock if self.clock is wall_clock else None,
            waits=steady_clock,
            trouble=hub.troubles,
            listener=hub,
            housekeep=housekeeper.tick,
            measured=measured,
            history=History(patient, measured),
            preparer=self._preparer(exchange, cluster, runner),
            limits=cluster,
            stopping=stopping,
        )
        return RunningJob(
            Parts(
                name=self.name,
                store=self.store,
                journal=self.journal,
                exchange=exchange,
                publisher=publisher,
                opener=opener,
                housekeeper=housekeeper,
                driver=driver,
                lease=lease,
                hub=hub,
                view=view,
                held=held,
                session=self.spark,
            )
        )

    def _sized(self, settings: Settings) -> Settings:
        """The settings with bounds of bytes per timestep and task, by executors' memory where they do not say."""
        most, each = SLOT_BYTES * self._tasks(), TASK_BYTES
        if self.spark is not None:
            from rechannel.engine.spark.session.memory import task_bytes, timestep_bytes

            most, each = timestep_bytes(self.spark), task_bytes(self.spark)
        return replace(
            settings,
            timestep_bytes=settings.timestep_bytes or most,
            task_bytes=settings.task_bytes or each,
        )

    def _loader(self) -> Loader:
        if self.in_process is not None:
            return InProcessLoader(self.in_process.names)
        from rechannel.engine.spark.loading import SparkLoader

        return SparkLoader()

    def _cluster(self) -> Cluster:
        if self.spark is None:
            return FixedCluster()
        from rechannel.engine.spark.cluster import spark_cluster

        return spark_cluster(self.spark)

    def _preparer(self, exchange: ProgramSwitch, cluster: Cluster, runner: Any) -> Preparer:
        if self.spark is None:
            return ClusterPreparer(exchange=exchange, cluster=cluster)
        from rechannel.engine.spark.preparing import spark_preparer

        return spark_preparer(self.spark, exchange, cluster, runner.placing)

    def _hub(self, configuration: Configuration) -> Hub:
        directory = directory_of(self.store) if self.settings.telemetry else None
        return open_hub(
            self.name,
            spark=self.spark,
            root=None if directory is None else directory.root,
            clock=self.clock,
            timestep=(self.journal.state.last_committed or 0) + 1,
            tasks={name: op.tasks for name, op in configuration.operators.items()},
            backlog=self.settings.publish_backlog,
        )

    def _scan(self) -> Scan | None:
        if self.spark is None:
            return None
        from rechannel.engine.spark.scanning import scan_frame

        return partial(scan_frame, self.spark)

    def _engine(self, current: Ready, cluster: Any) -> tuple[Runner, RowsOf]:
        if self.in_process is not None:
            return self._in_process(self.in_process, current)
        if self.spark is None:
            msg = "a job needs a Spark session or in_process="
            raise RefusedError(msg)
        from rechannel.engine.spark.wiring import spark_runner

        return spark_runner(
            self.spark,
            current.plan,
            current.program.programs,
            current.readers,
            job=self.name,
            cluster=cluster,
        )

    @staticmethod
    def _in_process(how: InProcess, current: Ready) -> tuple[Runner, RowsOf]:
        runner = InProcessRunner(
            current.plan,
            current.program.programs,
            current.readers,
            names=how.names,
            fault=how.fault,
        )
        return runner, runner.rows_of


def _parallelism(spark: Any) -> int:
    from rechannel.engine.spark.session.session import is_connect

    if is_connect(spark):
        return max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "2")))
    return int(spark.sparkContext.defaultParallelism)
