"""A dataflow on a bench: started, stepped, killed and started again, all in one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from rechannel.dataflow.check import check
from rechannel.dataflow.graph import Node
from rechannel.dataflow.stream import Stream, dataflow_of
from rechannel.dataflow.writer import Flow
from rechannel.engine.journal.entries import Opened
from rechannel.engine.journal.log import Journal, read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.loop.driver import Driver
from rechannel.engine.loop.housekeeping import Housekeeper
from rechannel.engine.program.identity import Identity
from rechannel.engine.program.opening import opening
from rechannel.engine.program.physical import SinkPlan, compile_plan
from rechannel.engine.program.programs import programs_of
from rechannel.engine.program.steps import first_configuration
from rechannel.engine.program.versions import NOTE, Program, bound, start_program
from rechannel.engine.program.withdrawal import withdrawal
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.cluster import FixedCluster
from rechannel.engine.reconfigure.history import History
from rechannel.engine.reconfigure.measured import Measured
from rechannel.engine.reconfigure.preparing import ClusterPreparer
from rechannel.engine.reconfigure.switch import Opener, ProgramSwitch, Ready
from rechannel.engine.stages.inprocess import Fault as TaskFault
from rechannel.engine.stages.inprocess import InProcessLoader, InProcessRunner, no_faults
from rechannel.engine.stages.loading import initial_state, load_initial
from rechannel.engine.view.state_view import StateView
from rechannel.errors import DataflowError, NotReadyError, UnknownOperatorError
from rechannel.model.configuration import Configuration
from rechannel.settings import Settings
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.open import open_source
from rechannel.sources.reader import SourceReader
from rechannel.state.faulty import Fault, FaultyStore, Outage
from rechannel.state.memory import MemoryStore
from rechannel.state.patient import PatientStore
from rechannel.state.store import Store
from rechannel.testing.clock import ManualClock
from rechannel.testing.process import (
    Choose,
    Process,
    PromptExecutor,
    Silent,
    StepExecutor,
    StepThread,
    no_housekeeping,
)
from rechannel.testing.recorder import Recorder
from rechannel.version import __version__

TASKS = 2
"""Tasks per operator where settings do not say."""

_OPENINGS = count(1)
"""Of this process: two harnesses over copies of one directory open it under different words."""

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

    def __init__(  # noqa: PLR0913 - what a test may want to hold in its hands
        self,
        flows: Flow | Stream | Sequence[Flow | Stream],
        *,
        store: Store | None = None,
        settings: Settings | None = None,
        clock: Callable[[], float] | None = None,
        steady: Callable[[], float] | None = None,
        recorders: Mapping[str, Recorder] | None = None,
        configure: Configure | None = None,
        choose: Choose | None = None,
        arrival: Arrival = list,
        cluster: FixedCluster | None = None,
        writer: Callable[[SinkPlan], SinkWriter | None] = lambda _: None,
        names: Iterator[str] | None = None,
        sweep_every: int | None = None,
        patient: bool = False,
    ) -> None:
        """Check the dataflow; nothing runs.

        flows: one or several ends, as for a Job. store: where state lives (default: in memory).
        clock: Unix milliseconds (default: a ManualClock). steady: milliseconds that pass, whatever
        the clock says (default: as the clock). recorders: by the name of the sink, where
        a test wants its own. configure: changes the Configuration that a new job starts with.
        choose: which of several things that may happen does (default: the first). arrival: the order
        in which blobs reach a task. cluster: what executors are made of. writer: makes the writer of
        a sink for one driver, where a test wants a real one in place of the recorder. names: of
        attempts; drivers on one store need different ones. sweep_every: commits from one sweep of
        files to the next, as a job does it (default: when `Process.sweep` says so).
        patient: the journal bears outages of its
        store, as that of a job does. Raises DataflowError.
        """
        self._patient = patient
        ends = [flows] if isinstance(flows, Flow | Stream) else list(flows)
        self.dataflow = dataflow_of(*ends)
        self.store: Store = store if store is not None else MemoryStore()
        self.settings = settings or Settings()
        self.clock = clock or ManualClock()
        self._steady = steady
        self._passed = steady or self.clock
        self.injected: Counter[str] = Counter()
        self.cluster = cluster or FixedCluster()
        self._configure: Configure = configure or (lambda configuration: configuration)
        self._choose: Choose = choose or (lambda _: 0)
        self._arrival = arrival
        self._names = names or map("attempt{}".format, count())
        self._own_writer = writer
        self._sweep_every = sweep_every
        check(self.dataflow)
        self._opener = Opener(
            store=self.store,
            ask=self._ask,
            reader=lambda node: open_source(
                getattr(node, "connector"),  # noqa: B009 - asked for of nodes that have one
                store=self.store,
                name=node.name,
                aside=PromptExecutor(),
            ),
            writer=self._writer,
            loader=InProcessLoader(lambda: next(self._names)),
            defaults={"tasks": self.settings.tasks or TASKS, "bins": self.settings.bins},
        )
        self._readers = self._opener.readers(self.dataflow, {})
        self._schemas = self._opener.schemas(self.dataflow, self._readers)
        self.plan = compile_plan(self.dataflow, self._schemas, bound(self.dataflow, self._schemas))
        self.recorders = {sink.sink.name: Recorder() for sink in self.plan.sinks}
        self.recorders.update(recorders or {})
        self._process: Process | None = None

    @staticmethod
    def _ask(
        readers: Mapping[str, SourceReader], node: Node, inputs: Sequence[pa.Schema]
    ) -> pa.Schema | None:
        del inputs
        if node.name in readers:
            return readers[node.name].schema
        msg = f"{node.name!r} ({node.where}) is a DataFrame function: it needs Spark"
        raise DataflowError(msg)

    def _writer(self, sink: SinkPlan, main: SinkWriter | None) -> SinkWriter:
        if main is not None:
            return main
        recorder: SinkWriter = self.recorders.setdefault(sink.sink.name, Recorder())
        return self._own_writer(sink) or recorder

    # Running -------------------------------------------------------------------------------------

    def start(  # noqa: PLR0913 - as of a job, and faults
        self,
        *,
        faults: Iterable[Fault | Outage | None] = (),
        task_faults: TaskFault = no_faults,
        settings: Settings | None = None,
        revert: bool = False,
        mended: bool = False,
        fresh: Collection[str] = (),
        without: Collection[str] = (),
        replan: bool = False,
        migrations: Iterable[Callable[..., Any]] = (),
    ) -> Process:
        """Start a driver, a new process as far as the store can tell; an earlier one is fenced.

        faults: what happens to its writes, one by one (see `FaultyStore`). task_faults: what happens
        to attempts of tasks (see `TaskFaults`). settings: of this driver; the journal's
        configuration holds all the same. revert, mended, fresh, without, replan: as for `Job.start`. migrations: as for
        `Job`. Raises Crash where a fault says so, and what a start raises.
        """
        store = FaultyStore(self.store, faults)
        settings = settings or self.settings
        journal, state = Journal.open(
            store, keep_versions=settings.keep_versions, snapshot_every=settings.snapshot_every
        )
        made = partial(
            start_program,
            self.dataflow,
            self._schemas,
            store,
            revert=revert,
            mended=mended,
            fresh=fresh,
            without=without,
            migrations=migrations,
        )
        program, changed = made(state), NOTE in state.notes
        identity = Identity(name="test", operators=program.record["operators"])
        identity.check(store, changed=changed)
        writers = self._opener.writers(program.plan)
        opened = Opened(
            host="test",
            pid=0,
            time_ms=0,
            fingerprint="",
            version=__version__,
            id=f"opening{next(_OPENINGS)}",
        )
        if journal.append(opened).number > state.number + 1:
            program = made(journal.state)
        for writer in writers.values():
            writer.begin()
        identity.claim(store, changed=changed)
        back = program.back is not None
        after = settings.replan_after
        withdrawn = withdrawal(journal.state, replan=replan, after=after, back=back)
        if withdrawn is not None:
            journal.append(withdrawn)
        self._process = self._assemble(store, journal, settings, task_faults, program, writers)
        if self._patient:
            journal.write_through(
                PatientStore(
                    inner=store,
                    patience=settings.patience,
                    sleep=lambda seconds: self._wait_until(self._passed() + seconds * 1e3),
                    clock=lambda: self._passed() / 1e3,
                )
            )
        self._process.driver.recover()
        return self._process

    def _assemble(
        self,
        store: FaultyStore,
        journal: Journal,
        settings: Settings,
        task_faults: TaskFault,
        program: Program,
        writers: Mapping[str, SinkWriter],
    ) -> Process:
        programs = program.programs
        now_ms = int(self.clock())
        configuration = self._configure(
            first_configuration(
                self.plan,
                tasks=settings.tasks or TASKS,
                bins=settings.bins,
                interval_ms=settings.interval_ms,
                in_flight=settings.in_flight,
            )
        )
        for body in opening(journal.state, program, configuration, now_ms):
            journal.append(body)
        current = Ready(program=program, readers=self._readers, writers=writers)
        loader = self._opener.loader
        tables = initial_state(self.plan, programs, journal.state, loader)
        load_initial(tables, programs, journal, configuration, loader, now_ms)
        runner = InProcessRunner(
            self.plan,
            programs,
            self._readers,
            names=self._names.__next__,
            fault=self._counting(task_faults),
            arrival=self._arrival,
        )
        publisher = self._publisher(current, journal, runner, settings)
        executor = StepExecutor()
        view = StateView(self.plan, programs)
        exchange = ProgramSwitch(
            current=current,
            runner=runner,
            publisher=publisher,
            view=view,
            state=lambda: journal.state,
        )
        measured = Measured(lambda: journal.state.manifests)
        driver = Driver(
            measured=measured,
            history=History(store, measured),
            exchange=exchange,
            journal=journal,
            runner=runner,
            publisher=publisher,
            configuration=configuration,
            settings=settings,
            clock=self.clock,
            steady=self._steady,
            listener=Silent(),
            housekeep=self._housekeeping(store, journal, exchange, executor),
            executor=executor,
            preparer=ClusterPreparer(exchange=exchange, cluster=self.cluster),
            limits=self.cluster,
        )
        return Process(
            exchange=exchange,
            opener=replace(self._opener, store=store),
            store=store,
            journal=journal,
            driver=driver,
            publisher=publisher,
            runner=runner,
            executor=executor,
            choose=self._choose,
            wait_until=self._wait_until,
        )

    def _housekeeping(
        self, store: Store, journal: Journal, exchange: ProgramSwitch, executor: StepExecutor
    ) -> Callable[[Callable[[], int | None]], None]:
        if self._sweep_every is None:
            return no_housekeeping
        return Housekeeper(
            store,
            journal,
            self._sweep_every,
            lambda: exchange.filling,
            thread=partial(StepThread, executor),
        ).tick

    def _publisher(
        self, current: Ready, journal: Journal, runner: InProcessRunner, settings: Settings
    ) -> Publisher:
        return Publisher(
            sinks=current.plan.sinks,
            writers=current.writers,
            rows_of=runner.rows_of,
            journal=journal,
            backlog=settings.publish_backlog,
        )

    def _wait_until(self, at_ms: float) -> None:
        """Only on clocks that can be set; on any other, time passes by itself."""
        missing = at_ms - self._passed()
        for clock in {id(one): one for one in (self.clock, self._passed)}.values():
            if isinstance(clock, ManualClock):
                clock.pass_until(clock() + missing)

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

    def state(
        self, operator: str, *, timestep: int | None = None, journal: JournalState | None = None
    ) -> pa.Table:
        """Committed state of an operator in its output columns, as `RunningJob.state`.

        journal: what `journal_state` told; read anew where it is left out.
        """
        table: pa.Table = self._view().frame(operator, journal or self.journal_state(), timestep)
        return table

    def state_table(
        self, operator: str, *, timestep: int | None = None, journal: JournalState | None = None
    ) -> pa.Table:
        """The same exactly as stored and in one order: equal states are equal tables."""
        return self._view().canonical(operator, journal or self.journal_state(), timestep)

    def _view(self) -> StateView:
        """State through the program that runs, read from the store itself: a dead driver cannot read."""
        if self._process is None:
            return StateView(self.plan, programs_of(self.plan, self.store))
        program = self._process.exchange.current.program
        programs = {n: replace(p, store=self.store) for n, p in program.programs.items()}
        return StateView(program.plan, programs)
