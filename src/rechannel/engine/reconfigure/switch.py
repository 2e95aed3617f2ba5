"""Switch between versions of the dataflow: versions that are ready, and the timestep boundary at which one takes over.

Everything that can fail (opening sources and sinks, asking for columns, deciding what happens to state) is done when a
version is made, in the caller's thread. Taking over is an assignment: no timestep is in flight then.
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

from rechannel.dataflow.evolution.migration import Migrate
from rechannel.dataflow.graph.nodes import Dataflow, Node, Source
from rechannel.dataflow.graph.schema import resolve
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.program.stored_versions import stored_schema_versions
from rechannel.engine.program.versions import Program, Succession, succeed
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.kept_writers import OpenWriter, writers_of
from rechannel.engine.stages.loading import Loader, given_state, load_added
from rechannel.engine.stages.runner import Runner
from rechannel.engine.view.state_view import StateView
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.codec import Json
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.edits import ChangeSet
from rechannel.sinks.spare import spent
from rechannel.sinks.writer import SinkWriter
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Edit
from rechannel.state.store import Store

_LOG = logging.getLogger("rechannel")


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A version with its open sources and sinks, by name.

    stamp: makes its program anew for the time at which it begins (Unix milliseconds); None if the time does not matter.
    State that gets another timeout is judged by it. loaded: what makes state that is written already that of its
    operators, which are new. before: the version that it was made from, until it begins.
    """

    program: Program
    readers: Mapping[str, SourceReader]
    writers: Mapping[str, SinkWriter]
    stamp: Callable[[int], Program] | None = None
    loaded: Mapping[str, Edit] = field(default_factory=dict)
    before: Ready | None = None

    @property
    def plan(self) -> PhysicalPlan:
        """Its stages and sinks."""
        return self.program.plan

    def close_beside(self, other: Ready) -> None:
        """Close what only this version has open. What cannot be closed is logged, and the job continues."""
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
        _LOG.warning("%r is not used and could not be closed: %s", name, error)


class Ask(Protocol):
    """Columns that only a source or Spark can tell."""

    def __call__(
        self, readers: Mapping[str, SourceReader], node: Node, inputs: Sequence[pa.Schema]
    ) -> pa.Schema | None:
        """Columns of a node; None where it says so itself. Raises DataflowError."""


@dataclass(frozen=True, kw_only=True)
class Opener:
    """How versions are made: the seams to sources, sinks and Spark.

    loader: loads initial state of operators that are new. defaults: `tasks` and `bins` of operators that do not say.
    """

    store: Store
    ask: Ask
    reader: Callable[[Source], SourceReader]
    writer: OpenWriter
    loader: Loader
    defaults: Mapping[str, int]

    def readers(
        self, dataflow: Dataflow, there: Mapping[str, SourceReader]
    ) -> dict[str, SourceReader]:
        """A reader for every source; those that are open stay."""
        return {
            node.name: there.get(node.name) or self.reader(node)
            for node in dataflow.nodes
            if isinstance(node, Source)
        }

    def schemas(
        self, dataflow: Dataflow, readers: Mapping[str, SourceReader]
    ) -> Mapping[str, pa.Schema]:
        """Columns of every node. Raises DataflowError."""
        return resolve(dataflow, lambda node, inputs: self.ask(readers, node, inputs))

    def writers(self, plan: PhysicalPlan, before: Ready | None = None) -> dict[str, SinkWriter]:
        """A writer for every sink; those of sinks that stay as they are stay open."""
        if before is None:
            return writers_of(plan, None, {}, self.writer)
        return writers_of(plan, before.plan, before.writers, self.writer)

    def succeed(
        self,
        before: Ready,
        dataflow: Dataflow,
        *,
        text: str,
        version: int,
        migrate: Mapping[str, Migrate],
        now_ms: int,
        state: Callable[[], JournalState],
    ) -> tuple[ChangeProgram, Ready]:
        """Make the next version. state: of the journal, now.

        Raises RefusedError, DataflowError; nothing stays open then.
        """
        readers = self.readers(dataflow, before.readers)
        try:
            schemas = self.schemas(dataflow, readers)

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
                    now_ms=at_ms,
                    stored=partial(stored_schema_versions, self.store, state),
                )

            made = make(now_ms)
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
        )
        return replace(made.change, base=before.program.version), ready

    def load(self, change: ChangeProgram, ready: Ready, position: StreamPosition) -> Ready:
        """The same version with the initial state of its new operators written. Raises DataflowError."""
        given = {n: make for n, make in given_state(ready.plan).items() if n in change.operators}
        loaded = load_added(
            given,
            ready.program.programs,
            self.loader,
            timestep=position.timestep,
            now_ms=position.time_ms,
        )
        return replace(ready, loaded=loaded)


@contextmanager
def proposed_change(
    asked: ChangeSet, switch: ProgramSwitch, opener: Opener, position: StreamPosition
) -> Iterator[Change]:
    """One change of all that was asked for, only to look at: no version waits for it, no initial state is loaded.

    Raises RefusedError, DataflowError; nothing stays open then.
    """
    if not asked.edits:
        yield asked.together()
        return
    switch.check_free()
    change, ready = _next(asked, switch, opener, position)
    try:
        yield asked.together(change)
    finally:
        switch.put_away(ready)


@contextmanager
def offered_change(
    asked: ChangeSet,
    switch: ProgramSwitch,
    opener: Opener,
    position: StreamPosition,
    *,
    supersede: bool = False,
) -> Iterator[Change]:
    """One change of all that was asked for; the next version waits for it, unless it is refused.

    supersede: in place of a version that waits already. Raises RefusedError, DataflowError; nothing stays open then.
    """
    if not asked.edits:
        yield asked.together()
        return
    change, ready = _offered(asked, switch, opener, position, supersede)
    try:
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
    """The next version of the one that runs, which waits from now on. One is made at a time."""
    with switch.making:
        while True:
            if not supersede:
                switch.check_free()
            change, ready = _next(asked, switch, opener, position)
            if switch.offer_next(ready):
                return change, ready
            switch.put_away(ready)  # meanwhile another version has begun


def _next(
    asked: ChangeSet, switch: ProgramSwitch, opener: Opener, position: StreamPosition
) -> tuple[ChangeProgram, Ready]:
    before = switch.current
    return opener.succeed(
        before,
        asked.applied(before.program.dataflow),
        text=asked.text,
        version=switch.next_version(),
        migrate=asked.migrations,
        now_ms=position.time_ms,
        state=switch.state,
    )


class ProgramSwitch:
    """The version that runs, and those that wait to take over."""

    def __init__(
        self,
        *,
        current: Ready,
        runner: Runner,
        publisher: Publisher,
        view: StateView,
        state: Callable[[], JournalState],
    ) -> None:
        """Take what has to learn of another version. state: of the journal, now."""
        self.state = state
        self._current = current
        self._runner = runner
        self._publisher = publisher
        self._view = view
        self._waiting: dict[int, Ready] = {}
        self._latest = current.program.version
        self._lock = threading.Lock()
        self.making = threading.Lock()
        """Held by the thread that makes a version, from the look at what waits until it waits itself."""

    @property
    def current(self) -> Ready:
        """The version that runs."""
        return self._current

    def next_version(self) -> int:
        """Number for another version, until one is offered; none is offered twice, so `withdraw` means no later one."""
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
        """The same version as it is now, if it still waits."""
        with self._lock:
            if ready.program.version in self._waiting:
                self._waiting[ready.program.version] = ready

    def is_wanted(self, version: int) -> bool:
        """Whether an open reconfiguration leads to a version."""
        return any(
            record.change.program_version == version for record in self.state().coordination.open
        )

    def put_away(self, ready: Ready) -> None:
        """Close what a version that does not begin has opened."""
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
        """Operators that are not there yet, whose state may be in files that the journal does not name."""
        with self._lock:
            named = {stage.name for ready in self._waiting.values() for stage in ready.plan.stages}
            return frozenset(named - {stage.name for stage in self._current.plan.stages})

    def loaded(self, version: int) -> Mapping[str, Edit]:
        """State that a version brings along for new operators. Raises NotReadyError."""
        return self._get(version).loaded

    def record(self, version: int, now_ms: int) -> Mapping[str, Json]:
        """What the journal keeps of a version that is about to begin. Raises NotReadyError."""
        ready = self._get(version)
        if ready.stamp is not None:
            ready = replace(ready, program=ready.stamp(now_ms))
            self.offer(ready)
        return ready.program.record

    def dataflow(self, version: int) -> Dataflow:
        """What a version that is about to begin consists of. Raises NotReadyError."""
        return self._get(version).program.dataflow

    def _get(self, version: int) -> Ready:
        with self._lock:
            if version not in self._waiting:
                msg = f"version {version} of the dataflow is not ready; give the job its functions and streams again"
                raise NotReadyError(msg)
            return self._waiting[version]

    def begin(self, version: int) -> Ready:
        """A version takes over; nothing is under way. Readers of sources that are gone are left to the intake."""
        # What would make it anew holds the version before it, and so would all versions hold all before them.
        ready = replace(self._get(version), stamp=None, loaded={}, before=None)
        self._runner.exchange(ready.plan, ready.program.programs, ready.readers)
        self._publisher.exchange(ready.plan.sinks, ready.writers)
        self._view.exchange(ready.plan, ready.program.programs)
        with self._lock:
            del self._waiting[version]
            self._current = ready
        return ready

    def close(self) -> None:
        """Close what waits."""
        for version in list(self._waiting):
            self.withdraw(version)
