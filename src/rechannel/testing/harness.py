"""A dataflow on a bench: started, stepped, killed and started again, all in one thread."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pyarrow as pa

from rechannel.assembly import Seams, Start, assemble
from rechannel.control.controller import Controller, Installation, installations
from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.graph.nodes import Node
from rechannel.dataflow.streams.stream import Stream, dataflow_of
from rechannel.dataflow.streams.writer import Flow
from rechannel.engine.failures.stopping import Stopping
from rechannel.engine.journal.entries import Opened
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.physical import SinkPlan, compile_plan
from rechannel.engine.program.programs import programs_of
from rechannel.engine.program.resetting import Reset
from rechannel.engine.program.versions import bound
from rechannel.engine.reconfigure.cluster import FixedCluster
from rechannel.engine.reconfigure.cluster_preparer import ClusterPreparer
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.reconfigure.placement import place
from rechannel.engine.stages.bundles import Bundles
from rechannel.engine.stages.inprocess import Fault as TaskFault
from rechannel.engine.stages.inprocess import (
    InProcessLoader,
    InProcessRunner,
    no_bundles,
    no_faults,
)
from rechannel.engine.stages.runner import Placed, Runner
from rechannel.engine.stages.sink_rows import RowsOf
from rechannel.engine.view.state_view import StateView
from rechannel.errors import DataflowError, NotReadyError, UnknownOperatorError
from rechannel.model.configuration import Configuration
from rechannel.serve.allowed import Allowed
from rechannel.settings import Settings
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.connector import SourceContext
from rechannel.sources.reader import SourceReader
from rechannel.state.store import Store
from rechannel.state.stores.faulty import Fault, FaultyStore, Outage
from rechannel.state.stores.memory import MemoryStore
from rechannel.state.stores.patient import PatientStore
from rechannel.telemetry.driver_hub import open_hub
from rechannel.telemetry.hub import Hub
from rechannel.testing.clock import ManualClock
from rechannel.testing.process import (
    Choose,
    LateWriter,
    NoLease,
    Process,
    PromptExecutor,
    StepExecutor,
    StepThread,
)
from rechannel.testing.recorder import Recorder
from rechannel.version import __version__

TASKS = 2
"""Tasks per operator where settings do not say."""

NAME = "test"
"""Of the job, to the state directory."""

_IDS = count(1)
"""Of this process: two harnesses over copies of one directory open it under different words."""

Configure = Callable[[Configuration], Configuration]
Arrival = Callable[[list[bytes]], list[bytes]]


class Harness:
    """Runs a dataflow in this process, deterministically, with faults where a test wants them.

        >>> import rechannel as rc
        >>> from rechannel.testing import Harness, script
        >>> words = script("word string", [[{"word": "a"}, {"word": "b"}], [{"word": "a"}]])
        >>> counts = rc.read().memory(words).key_by("word").aggregate(n=rc.aggregates.count(), name="counts")
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
        bundles: Callable[[int], Bundles] = no_bundles,
        cluster: FixedCluster | None = None,
        writer: Callable[[SinkPlan], SinkWriter | None] = lambda _: None,
        names: Iterator[str] | None = None,
        sweep_every: int | None = None,
        patient: bool = False,
    ) -> None:
        """Check the dataflow; nothing runs.

        Args:
            flows: one or several ends, as for a `Job`.
            store: where state lies; None = in memory.
            settings: as of a `Job`; None = `Settings()`, with 2 tasks.
            clock: Unix milliseconds; None = a `ManualClock`, which stands still until a test advances it.
            steady: milliseconds that pass, whatever the clock says; None = those of the clock.
            recorders: by the name of the sink, where a test wants its own.
            configure: changes the Configuration that a new job starts with.
            choose: which of several things that may happen does; None = the first.
            arrival: the order in which blobs reach a task.
            bundles: returns which of so many tasks with state run as one, as Spark runs short ones; () = none.
            cluster: what executors are made of; None = as many as are asked for.
            writer: makes the writer of a sink for one driver, where a test wants a real one in place of the recorder.
            names: of attempts; drivers on one store need different ones.
            sweep_every: commits from one sweep of files to the next; None = when `Process.sweep` says so.
            patient: whether the journal bears outages of its store, as that of a job does.

        Raises:
            DataflowError: the dataflow cannot run as written.
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
        self.entries: Counter[str] = Counter()
        self.cluster = cluster or FixedCluster()
        self._configure: Configure = configure or (lambda configuration: configuration)
        self._choose: Choose = choose or (lambda _: 0)
        self._arrival, self._bundles = arrival, bundles
        self._names = names or map("attempt{}".format, count())
        self._own_writer = writer
        self._sweep_every = sweep_every or sys.maxsize
        check(self.dataflow)
        opener = self._opener(self.store, self.settings)
        readers = opener.readers(self.dataflow, {})
        self._schemas = opener.schemas(self.dataflow, readers)
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
        upgrade: bool = False,
        reset: Reset | None = None,
        migrations: Iterable[Callable[..., Any]] = (),
        migrate: Mapping[str, Migrate] | None = None,
        renamed: Mapping[str, str] | None = None,
        controllers: Sequence[Controller | Installation] = (),
        allow: Sequence[str] = (),
    ) -> Process:
        """Start a driver, a new process as far as the store can tell; an earlier one is fenced.

        faults: what happens to its writes, one by one (see `FaultyStore`). task_faults: what happens
        to attempts of tasks (see `TaskFaults`). settings: of this driver; the journal's
        configuration holds all the same. revert, mended, fresh, without, replan, upgrade: as for `Job.start`; reset:
        as `Job.reset` asks.
        migrations, migrate, renamed, controllers, allow: as for `Job`. Raises Crash where a fault says so, and what a
        start raises.
        """
        store = FaultyStore(self.store, faults)
        executor = StepExecutor()
        parts = assemble(
            self._seams(store, executor, task_faults, settings or self.settings),
            name=NAME,
            dataflow=self.dataflow,
            settings=settings or self.settings,
            start=Start(
                revert=revert,
                mended=mended,
                replan=replan,
                fresh=fresh,
                without=without,
                upgrade=upgrade,
                reset=reset,
                renamed=renamed or {},
                migrate=migrate or {},
                migrations=tuple(migrations),
                controllers=installations(controllers),
                find=Allowed(modules=tuple(allow)).controller if allow else None,
            ),
        )
        self._process = Process(
            parts=parts, executor=executor, choose=self._choose, wait_until=self._wait_until
        )
        parts.driver.recover()
        return self._process

    def _seams(
        self, store: Store, executor: StepExecutor, task_faults: TaskFault, settings: Settings
    ) -> Seams:
        """What a job has of the outside world, in memory and in one thread."""
        return Seams(
            store=store,
            clock=self.clock,
            steady=self._steady,
            waits=None,
            ids=lambda: f"id{next(_IDS)}",
            stamp=_stamp,
            acquire=lambda takeover: NoLease(),
            opener=lambda owner, ledger: self._opener(store, settings),
            cluster=lambda: self.cluster,
            engine=lambda current, cluster: self._engine(current, task_faults),
            preparer=lambda switch, cluster, runner: ClusterPreparer(
                switch=switch, cluster=cluster
            ),
            hub=lambda configuration, timestep: self._hub(configuration, timestep, settings),
            bearing=self._bearing,
            executor=executor,
            journal_writer=LateWriter(self._choose, self.entries),
            thread=partial(StepThread, executor),
            sweep_every=self._sweep_every,
            configure=self._configure,
        )

    def _opener(self, store: Store, settings: Settings) -> Opener:
        return Opener(
            store=store,
            ask=self._ask,
            reader=lambda source: source.connector.open(
                SourceContext(store=store, name=source.name, aside=PromptExecutor())
            ),
            writer=self._writer,
            loader=InProcessLoader(lambda: next(self._names)),
            defaults={"tasks": settings.tasks or TASKS, "bins": settings.bins},
        )

    def _engine(self, current: Ready, task_faults: TaskFault) -> tuple[Runner, RowsOf]:
        runner = InProcessRunner(
            current.plan,
            current.program.programs,
            current.readers,
            self.store,
            names=self._names.__next__,
            fault=self._counting(task_faults),
            arrival=self._arrival,
            bundles=self._bundles,
            places=self._places,
        )
        return runner, runner.rows_of

    def _places(self) -> Placed:
        """Where tasks would run on the executors of the cluster; nowhere yet while the first driver starts."""
        if self._process is None:
            return Placed()
        alive = self.cluster.executors()
        operators = self.process.parts.driver.position.configuration.operators
        stateful = {n: o for n, o in operators.items() if o.routing is not None}
        tasks = {n: place(o.tasks, {}, o.placement, alive) for n, o in stateful.items()}
        return Placed(
            executors={each.id: each.cores for each in alive} if len(alive) > 1 else {},
            tasks={n: places for n, places in tasks.items() if places},
        )

    def _hub(self, configuration: Configuration, timestep: int, settings: Settings) -> Hub:
        return open_hub(
            NAME,
            spark=None,
            root=None,
            clock=self.clock,
            timestep=timestep,
            tasks={name: op.tasks for name, op in configuration.operators.items()},
            backlog=settings.publish_backlog,
        )

    def _bearing(
        self, store: Store, stopping: Stopping, tell: Callable[[BaseException | None], None], /
    ) -> Store:
        """A journal that bears outages waits by the clock of the harness."""
        if not self._patient:
            return store
        return PatientStore(
            inner=store,
            patience=self.settings.patience,
            left=stopping.left,
            tell=tell,
            sleep=lambda seconds: self._wait_until(self._passed() + seconds * 1e3),
            clock=lambda: self._passed() / 1e3,
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
        program = self._process.switch.current.program
        programs = {n: replace(p, store=self.store) for n, p in program.programs.items()}
        return StateView(program.plan, programs)


def _stamp(*, fingerprint: str, time_ms: int, id: str) -> Opened:  # noqa: A002 - the entry's word
    """Take over under the name of no machine, so that a journal is the same on every one."""
    return Opened(
        host="test", pid=0, time_ms=time_ms, fingerprint=fingerprint, version=__version__, id=id
    )
