"""Switch between versions of the dataflow: versions that are ready, and the timestep boundary at which one takes over.

Everything that can fail (opening sources and sinks, finding columns, deciding what happens to state) is done when a
version is made, in the caller's thread. Taking over is an assignment, at a boundary where no timestep is in flight.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import pyarrow as pa

from rechannel.dataflow.checks.outside import see_outside
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.graph.nodes import Dataflow, Node, Source
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.identity.factories import Factory
from rechannel.engine.journal.forking import check_outputs
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.deploying import with_assigned
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.restarting import sources_of
from rechannel.engine.program.stored_versions import stored_schema_versions
from rechannel.engine.program.unread import check_unread
from rechannel.engine.program.upgrading import Upgrade
from rechannel.engine.program.versions import Program, Succession, deployed_to, succeed
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.kept_writers import OpenWriter, begin_new, writers_of
from rechannel.engine.stages.loading import Loader, given_state, load_added
from rechannel.engine.stages.runner import Runner
from rechannel.engine.view.state_view import StateView
from rechannel.errors import NotReadyError, RefusedError, one_sentence
from rechannel.logs import fields
from rechannel.model.codec import Json
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.deploy import Deploy, deploy_of
from rechannel.reconfigure.edits import ChangeSet
from rechannel.sinks.spare import spent
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Edit
from rechannel.state.store import Store

_LOG = logging.getLogger("rechannel")


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A version with its open sources and sinks, by name."""

    program: Program
    readers: Mapping[str, SourceReader]
    writers: Mapping[str, SinkWriter]
    stamp: Callable[[int], Program] | None = None
    """Makes its program anew for the time at which it begins, in Unix milliseconds, on which state with another timeout
    depends; None if the time does not matter."""
    loaded: Mapping[str, Edit] = field(default_factory=dict)
    """Edits that add the initial state of new operators, whose files are written already."""
    before: Ready | None = None
    """The version that it was made from, until it begins."""
    upgrade: Upgrade | None = None
    """What a deploy does; None of other changes."""

    @property
    def plan(self) -> PhysicalPlan:
        """Return the physical plan of the version: stages and sinks."""
        return self.program.plan

    def close_beside(self, other: Ready) -> None:
        """Close what only this version has open. A failure to close is logged, and the job continues."""
        _close_beside(self.readers, other.readers)
        for name, writer in self.writers.items():
            for part in spent(writer, other.writers.get(name)):
                _close(name, part)


def _close_beside(mine: Mapping[str, SourceReader], others: Mapping[str, SourceReader]) -> None:
    for name, opened in mine.items():
        if others.get(name) is not opened:
            _close(name, opened)


def _close(name: str, opened: SourceReader | SinkWriter) -> None:
    try:
        opened.close()
    except Exception as error:
        _LOG.warning(
            "%r is no longer used and could not be closed: %s",
            name,
            one_sentence(error),
            extra=fields("not_closed", operator=name, reason=error),
        )


class Ask(Protocol):
    """Finds columns that only a source or Spark knows."""

    def __call__(
        self, readers: Mapping[str, SourceReader], node: Node, inputs: Sequence[pa.Schema]
    ) -> pa.Schema | None:
        """Columns of a node; None if the node declares them. Raises DataflowError."""


@dataclass(frozen=True, kw_only=True)
class Opener:
    """Opens versions: the seams to sources, sinks and Spark."""

    store: Store
    ask: Ask
    reader: Callable[[Source], SourceReader]
    writer: OpenWriter
    loader: Loader
    """Loads the initial state of new operators."""
    defaults: Mapping[str, int]
    """`tasks` and `bins` of operators that do not set them."""

    def readers(
        self, dataflow: Dataflow, there: Mapping[str, SourceReader]
    ) -> dict[str, SourceReader]:
        """Return a reader for each source; open ones are kept. If one cannot be opened, no other stays open."""
        made: dict[str, SourceReader] = {}
        try:
            for node in dataflow.nodes:
                if isinstance(node, Source):
                    made[node.name] = there.get(node.name) or self.reader(node)
        except BaseException:
            _close_beside(made, there)
            raise
        return made

    def schemas(
        self, dataflow: Dataflow, readers: Mapping[str, SourceReader]
    ) -> Mapping[str, pa.Schema]:
        """Columns of every node; its functions have agreed with what is outside. Raises DataflowError, RefusedError."""
        found = resolve(dataflow, lambda node, inputs: self.ask(readers, node, inputs))
        see_outside(dataflow, found)
        return found

    def writers(self, plan: PhysicalPlan, before: Ready | None = None) -> dict[str, SinkWriter]:
        """Return a writer for each sink; those of unchanged sinks are kept."""
        if before is None:
            return writers_of(plan, None, {}, self.writer)
        return writers_of(plan, before.plan, before.writers, self.writer)

    def succeed(  # noqa: PLR0913 - what a version is made of
        self,
        before: Ready,
        dataflow: Dataflow,
        *,
        text: str,
        version: int,
        migrate: Mapping[str, Migrate],
        assigned: Mapping[str, Factory],
        stream_ms: int,
        state: Callable[[], JournalState],
        deploy: Deploy | None = None,
    ) -> tuple[ChangeProgram, Ready]:
        """Make the next version, and the change that leads to it. state: returns the present state of the journal.

        deploy: if the dataflow is another text, what it declares and provides. Raises RefusedError, DataflowError; then
        nothing stays open.
        """
        check_outputs(dataflow, state().notes)
        given_up = () if deploy is None else deploy.declared.without
        check_unread(self.store, state().offsets, sources_of(dataflow), without=given_up, live=True)
        readers = self.readers(dataflow, before.readers)
        stored = partial(stored_schema_versions, self.store, state)
        try:
            schemas = self.schemas(dataflow, readers)
            upgrade = None
            if deploy is not None:
                upgrade = deployed_to(before.program, dataflow, schemas, deploy, stored, state())
                migrate = deploy.declared.undone(before.program.record)

            def make(at_ms: int) -> Succession:
                return succeed(
                    before.program,
                    dataflow,
                    schemas,
                    self.store,
                    text=text,
                    version=version,
                    defaults=self.defaults,
                    migrate=migrate,
                    assigned=assigned,
                    stream_ms=at_ms,
                    stored=stored,
                    deploy=deploy,
                )

            made = make(stream_ms)
            writers = self.writers(made.program.plan, before)
        except BaseException:
            _close_beside(readers, before.readers)
            raise
        moves_state = made.program.record["migrations"] != before.program.record["migrations"]
        ready = Ready(
            program=made.program,
            readers=readers,
            writers=writers,
            stamp=(lambda at_ms: make(at_ms).program) if moves_state else None,
            before=before,
            upgrade=upgrade,
        )
        return replace(made.change, base=before.program.version), ready

    def load(self, change: ChangeProgram, ready: Ready, position: StreamPosition) -> Ready:
        """Write the initial state of new operators; returns the version that has it. Raises DataflowError."""
        given = {n: make for n, make in given_state(ready.plan).items() if n in change.operators}
        loaded = load_added(
            given,
            ready.program.programs,
            self.loader,
            timestep=position.timestep,
            stream_ms=position.time_ms,
        )
        return replace(ready, loaded=loaded)


@contextmanager
def offered_change(
    asked: ChangeSet,
    switch: ProgramSwitch,
    opener: Opener,
    position: StreamPosition,
    *,
    supersede: bool = False,
) -> Iterator[Change]:
    """All requested changes as one; the next version waits for it to begin, unless it is refused.

    supersede: take the place of a version that waits. Raises RefusedError, DataflowError; then nothing stays open.
    """
    if not asked.edits:
        yield asked.together()
        return
    change, ready = _offered(asked, switch, opener, position, supersede)
    try:
        begin_new(ready.writers, ready.before.writers if ready.before else {})
        ready = opener.load(change, ready, position)
        switch.offer(ready)
        rows = {name: sum(run.rows for run in edit.add) for name, edit in ready.loaded.items()}
        yield asked.together(replace(change, loaded=rows))
    except BaseException:
        if not switch.is_wanted(change.version):
            switch.withdraw(change.version)
        raise


def _offered(
    asked: ChangeSet,
    switch: ProgramSwitch,
    opener: Opener,
    position: StreamPosition,
    supersede: bool,
) -> tuple[ChangeProgram, Ready]:
    """Open the version after the running one, which waits from now on. Only one is opened at a time."""
    with switch.making:
        while True:
            if not supersede:
                switch.check_free()
            change, ready = successor_of(asked, switch, opener, position)
            if switch.offer_next(ready):
                return change, ready
            switch.put_away(ready)  # another version has begun meanwhile


def successor_of(
    asked: ChangeSet, switch: ProgramSwitch, opener: Opener, position: StreamPosition
) -> tuple[ChangeProgram, Ready]:
    """Open the version that edits make of the running one. Raises RefusedError, DataflowError."""
    before, deploy = switch.current, deploy_of(asked)
    dataflow = asked.applied(before.program.dataflow)
    if deploy is not None:
        dataflow = with_assigned(dataflow, before.program.dataflow, before.program.record)
    return opener.succeed(
        before,
        dataflow,
        text=asked.text,
        version=switch.next_version(),
        migrate=asked.migrations,
        assigned=asked.assigned,
        stream_ms=position.time_ms,
        state=switch.state,
        deploy=deploy,
    )


class ProgramSwitch:
    """The running version, and those that wait to take over."""

    def __init__(
        self,
        *,
        current: Ready,
        runner: Runner,
        publisher: Publisher,
        view: StateView,
        state: Callable[[], JournalState],
    ) -> None:
        """runner, publisher, view: switched with the version. state: returns the present state of the journal."""
        self.state = state
        self._current = current
        self._runner = runner
        self._publisher = publisher
        self._view = view
        self._waiting: dict[int, Ready] = {}
        self._latest = current.program.version
        self._lock = threading.Lock()
        self.making = threading.Lock()
        """Held by the thread that opens a version, from the check of what waits until the new version waits."""

    @property
    def current(self) -> Ready:
        """The running version."""
        return self._current

    def next_version(self) -> int:
        """Number of the next version. No number is offered twice, so `withdraw` never drops a later version."""
        with self._lock:
            return self._latest + 1

    @property
    def busy(self) -> bool:
        """Whether a version waits to take over."""
        with self._lock:
            return bool(self._waiting)

    def check_free(self) -> None:
        """Raise RefusedError if a version waits to take over."""
        if self.busy:
            msg = (
                "another change of the program has not begun yet: wait for it, abort it, or take its place with"
                " supersede=True"
            )
            raise RefusedError(msg)

    def offer_next(self, ready: Ready) -> bool:
        """Keep a version until it takes over. Returns False if it was not made from the running one."""
        with self._lock:
            if ready.before is not self._current:
                return False
            self._waiting[ready.program.version] = ready
            self._latest = ready.program.version
            return True

    def offer(self, ready: Ready) -> None:
        """Replace a version that waits by its present form."""
        with self._lock:
            if ready.program.version in self._waiting:
                self._waiting[ready.program.version] = ready

    def is_wanted(self, version: int) -> bool:
        """Whether an open reconfiguration leads to a version."""
        return any(
            record.change.program_version == version for record in self.state().coordination.open
        )

    def put_away(self, ready: Ready) -> None:
        """Close what a version has opened that will not begin."""
        ready.close_beside(ready.before or self._current)

    def withdraw(self, version: int) -> None:
        """Drop a version that will not take over: close what it opened."""
        with self._lock:
            ready = self._waiting.pop(version, None)
        if ready is not None:
            self.put_away(ready)

    def waiting(self, version: int) -> Ready | None:
        """Return a version that waits to take over; None if it does not."""
        with self._lock:
            return self._waiting.get(version)

    def has(self, version: int) -> bool:
        """Whether a version waits."""
        with self._lock:
            return version in self._waiting

    @property
    def operators_to_come(self) -> frozenset[str]:
        """New operators of waiting versions: their state may be in files that the journal does not name yet."""
        with self._lock:
            named = {stage.name for ready in self._waiting.values() for stage in ready.plan.stages}
            return frozenset(named - {stage.name for stage in self._current.plan.stages})

    def loaded(self, version: int) -> Mapping[str, Edit]:
        """Initial state of the new operators of a version. Raises NotReadyError."""
        return self._get(version).loaded

    def record(self, version: int, stream_ms: int) -> Mapping[str, Json]:
        """What the journal keeps about a version that is about to begin. Raises NotReadyError."""
        ready = self._get(version)
        if ready.stamp is not None:
            ready = replace(ready, program=ready.stamp(stream_ms))
            self.offer(ready)
        return ready.program.record

    def dataflow(self, version: int) -> Dataflow:
        """The dataflow of a version that is about to begin. Raises NotReadyError."""
        return self._get(version).program.dataflow

    def _get(self, version: int) -> Ready:
        with self._lock:
            if version not in self._waiting:
                msg = f"version {version} of the dataflow is not open in this driver: request its change again"
                raise NotReadyError(msg)
            return self._waiting[version]

    def readers(self, version: int) -> Mapping[str, SourceReader]:
        """Return the readers of a version that waits. Raises NotReadyError."""
        return self._get(version).readers

    def begin(self, version: int) -> Ready:
        """Let a version take over; no timestep is in flight. The source tracker closes readers of removed sources."""
        # `stamp` and `before` refer to the previous version: kept, they would keep all earlier versions in memory.
        ready = replace(self._get(version), stamp=None, loaded={}, before=None, upgrade=None)
        self._runner.switch_to(ready.plan, ready.program.programs, ready.readers)
        self._publisher.switch_to(ready.plan.sinks, ready.writers)
        self._view.switch_to(ready.plan, ready.program.programs)
        with self._lock:
            del self._waiting[version]
            self._current = ready
        return ready

    def close(self) -> None:
        """Close all versions that wait."""
        for version in list(self._waiting):
            self.withdraw(version)
