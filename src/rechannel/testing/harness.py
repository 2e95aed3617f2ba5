"""A dataflow on a bench: started, stepped, killed and started again, all in one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

import pyarrow as pa

from rechannel.dataflow.check import check, fingerprint
from rechannel.dataflow.graph import Node, Stateful
from rechannel.dataflow.schema import resolve
from rechannel.dataflow.stream import Stream, dataflow_of
from rechannel.dataflow.writer import Flow
from rechannel.engine.driver import Driver
from rechannel.engine.entries import Opened
from rechannel.engine.identity import Identity
from rechannel.engine.inprocess import Fault as TaskFault
from rechannel.engine.inprocess import InProcessLoader, InProcessRunner, no_faults
from rechannel.engine.journal import Journal, read_only
from rechannel.engine.journal_state import JournalState
from rechannel.engine.loading import load_initial
from rechannel.engine.physical import SinkPlan, compile_plan
from rechannel.engine.programs import programs_of
from rechannel.engine.publishing import Publisher
from rechannel.engine.runner import Timestep
from rechannel.engine.state_view import StateView
from rechannel.engine.steps import first_configuration
from rechannel.errors import DataflowError, NotReadyError, UnknownOperatorError
from rechannel.model.configuration import Configuration
from rechannel.settings import Settings
from rechannel.sinks.writer import Rows, SinkWriter
from rechannel.sources.open import open_source
from rechannel.state.faulty import Fault, FaultyStore
from rechannel.state.memory import MemoryStore
from rechannel.state.store import Store
from rechannel.testing.clock import ManualClock
from rechannel.testing.process import Choose, Process, Silent, StepExecutor, no_housekeeping
from rechannel.testing.recorder import Recorder
from rechannel.version import __version__

TASKS = 2
"""Tasks per operator where settings do not say."""

Configure = Callable[[Configuration], Configuration]
Arrival = Callable[[list[bytes]], list[bytes]]


class Harness:
    """Runs a dataflow in this process, deterministically, with faults where a test wants them.

        >>> import rechannel as rc
        >>> from rechannel.testing import Harness, script
        >>> words = script("word string", [[{"word": "a"}, {"word": "b"}], [{"word": "a"}]])
        >>> counts = rc.read().memory(words).key_by("word").aggregate(n=rc.count(), name="counts")
        >>> harness = Harness(counts.write.memory("out"))
        >>> harness.start().run()
        >>> harness.output().sort_by("word").to_pylist()
        [{'word': 'a', 'n': 1}, {'word': 'a', 'n': 2}, {'word': 'b', 'n': 1}]

    The rows of every sink go to a `Recorder`, whatever the sink is.
    """

    def __init__(
        self,
        flows: Flow | Stream | Sequence[Flow | Stream],
        *,
        store: Store | None = None,
        settings: Settings | None = None,
        clock: Callable[[], float] | None = None,
        recorders: Mapping[str, Recorder] | None = None,
        configure: Configure | None = None,
        choose: Choose | None = None,
        arrival: Arrival = list,
    ) -> None:
        """Check the dataflow; nothing runs.

        flows: one or several ends, as for a Job. store: where state lives (default: in memory).
        clock: Unix milliseconds (default: a ManualClock). recorders: by the name of the sink, where
        a test wants its own. configure: changes the Configuration that a new job starts with.
        choose: which of several things that may happen does (default: the first). arrival: the order
        in which blobs reach a task. Raises DataflowError.
        """
        ends = [flows] if isinstance(flows, Flow | Stream) else list(flows)
        self.dataflow = dataflow_of(*ends)
        self.store: Store = store if store is not None else MemoryStore()
        self.settings = settings or Settings()
        self.clock = clock or ManualClock()
        self.injected: Counter[str] = Counter()
        self._configure: Configure = configure or (lambda configuration: configuration)
        self._choose: Choose = choose or (lambda _: 0)
        self._arrival = arrival
        self._names = map("attempt{}".format, count())
        check(self.dataflow)
        self._readers = {
            node.name: open_source(node.connector, store=self.store, name=node.name)
            for node in self.dataflow.nodes
            if hasattr(node, "connector")
        }
        schemas = resolve(self.dataflow, self._ask)
        logics = {
            node.name: node.spec.bind(node.keys, schemas[node.upstream.name])
            for node in self.dataflow.nodes
            if isinstance(node, Stateful)
        }
        self.plan = compile_plan(self.dataflow, schemas, logics)
        self.recorders = {sink.sink.name: Recorder() for sink in self.plan.sinks}
        self.recorders.update(recorders or {})
        self._identity = Identity(name="test", operators=fingerprint(self.dataflow, schemas))
        self._view = StateView(self.plan, programs_of(self.plan, self.store), None)
        self._process: Process | None = None

    def _ask(self, node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
        del inputs
        if node.name in self._readers:
            return self._readers[node.name].schema
        msg = f"{node.name!r} ({node.where}) is a DataFrame function: it needs Spark"
        raise DataflowError(msg)

    # Running -------------------------------------------------------------------------------------

    def start(
        self,
        *,
        faults: Iterable[Fault | None] = (),
        task_faults: TaskFault = no_faults,
        settings: Settings | None = None,
    ) -> Process:
        """Start a driver, a new process as far as the store can tell; an earlier one is fenced.

        faults: what happens to its writes, one by one (see `FaultyStore`). task_faults: what happens
        to attempts of tasks (see `TaskFaults`). settings: of this driver; the journal's
        configuration holds all the same. Raises Crash where a fault says so, and what a start
        raises.
        """
        store = FaultyStore(self.store, faults)
        settings = settings or self.settings
        self._identity.claim(store)
        journal, _ = Journal.open(
            store, keep_versions=settings.keep_versions, snapshot_every=settings.snapshot_every
        )
        journal.append(Opened(host="test", pid=0, time_ms=0, fingerprint="", version=__version__))
        self._process = self._assemble(store, journal, settings, task_faults)
        self._process.driver.recover()
        return self._process

    def _assemble(
        self, store: FaultyStore, journal: Journal, settings: Settings, task_faults: TaskFault
    ) -> Process:
        programs = programs_of(self.plan, store)
        configuration = self._configure(
            first_configuration(
                self.plan,
                tasks=settings.tasks or TASKS,
                bins=settings.bins,
                interval_ms=settings.interval_ms,
                in_flight=settings.in_flight,
            )
        )
        loader = InProcessLoader(self._names.__next__)
        load_initial(self.plan, programs, journal, configuration, loader, int(self.clock()))
        runner = InProcessRunner(
            self.plan,
            programs,
            self._readers,
            names=self._names.__next__,
            fault=self._counting(task_faults),
            arrival=self._arrival,
        )
        publisher = self._publisher(journal, runner, settings)
        executor = StepExecutor()
        driver = Driver(
            plan=self.plan,
            journal=journal,
            runner=runner,
            readers=self._readers,
            publisher=publisher,
            configuration=configuration,
            settings=settings,
            clock=self.clock,
            listener=Silent(),
            housekeep=no_housekeeping,
            executor=executor,
        )
        return Process(
            store=store,
            journal=journal,
            driver=driver,
            publisher=publisher,
            runner=runner,
            executor=executor,
            choose=self._choose,
        )

    def _publisher(
        self, journal: Journal, runner: InProcessRunner, settings: Settings
    ) -> Publisher:
        def rows_of(
            sink: SinkPlan, decided: Timestep | None, kept: Mapping[str, list[str]]
        ) -> Rows:
            return Rows(
                frame=None,
                tables=lambda: runner.frame_rows(sink.frame, decided, kept),
                schema=sink.schema,
            )

        writers: dict[str, SinkWriter] = {**self.recorders}
        return Publisher(
            sinks=self.plan.sinks,
            writers=writers,
            rows_of=rows_of,
            journal=journal,
            backlog=settings.publish_backlog,
        )

    def _counting(self, faults: TaskFault) -> TaskFault:
        def counted(operator: str, timestep: int, task: int, attempt: int) -> str | None:
            fault = faults(operator, timestep, task, attempt)
            if fault is not None:
                self.injected[fault] += 1
            return fault

        return counted

    @property
    def started(self) -> bool:
        """Whether a driver was ever started."""
        return self._process is not None

    @property
    def process(self) -> Process:
        """The driver that was started last. Raises NotReadyError before the first start."""
        if self._process is None:
            msg = "no driver runs yet: call start() first"
            raise NotReadyError(msg)
        return self._process

    # Looking -------------------------------------------------------------------------------------

    def journal_state(self) -> JournalState:
        """What the journal says now, read anew as a restart would."""
        return read_only(self.store)

    def outputs(self, sink: str | None = None) -> dict[int, pa.Table]:
        """Rows that a sink was given, by timestep. sink: its name; not needed if there is one."""
        return dict(sorted(self._recorder(sink).published.items()))

    def output(self, sink: str | None = None) -> pa.Table:
        """All rows that a sink was given, in the order of timesteps."""
        name = self._sink(sink)
        tables = list(self.outputs(name).values())
        return pa.concat_tables([self._schema(name).empty_table(), *tables])

    def _recorder(self, sink: str | None) -> Recorder:
        return self.recorders[self._sink(sink)]

    def _sink(self, sink: str | None) -> str:
        if sink is None and len(self.recorders) == 1:
            return next(iter(self.recorders))
        if sink not in self.recorders:
            msg = f"there is no sink {sink!r}; there are {sorted(self.recorders)}"
            raise UnknownOperatorError(msg)
        return sink

    def _schema(self, sink: str) -> pa.Schema:
        return next(plan.schema for plan in self.plan.sinks if plan.sink.name == sink)

    def state(self, operator: str, *, timestep: int | None = None) -> pa.Table:
        """Committed state of an operator in its output columns, as `RunningJob.state`."""
        table: pa.Table = self._view.frame(operator, self.journal_state(), timestep)
        return table

    def state_table(self, operator: str, *, timestep: int | None = None) -> pa.Table:
        """The same exactly as stored and in one order: equal states are equal tables."""
        return self._view.canonical(operator, self.journal_state(), timestep)
