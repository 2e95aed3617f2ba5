"""Switch between versions of the dataflow: versions that are ready, and the timestep boundary at which one takes over.

Everything that can fail (opening sources and sinks, finding columns, deciding what happens to state) is done when a
version is made, in the caller's thread. Taking over is an assignment, at a boundary where no timestep is in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from rechannel.dataflow.graph.nodes import Dataflow
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.deploying import with_assigned
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.reconfigure.kept_writers import begin_new
from rechannel.engine.reconfigure.opener import Opener, Ready
from rechannel.engine.stages.runner import Runner
from rechannel.engine.view.state_view import StateView
from rechannel.errors import NotReadyError, RefusedError
from rechannel.model.codec import Json
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.program import ChangeProgram
from rechannel.reconfigure.deploy import deploy_of
from rechannel.reconfigure.edits import ChangeSet
from rechannel.sources.reader import SourceReader
from rechannel.state.manifest import Edit


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

    def end_logs(self, version: int) -> None:
        """Prepare the sources that a version does not have to go. Raises OtherDataflowError, NotReadyError."""
        self._get(version).end_logs()

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
        ready = self._get(version).begun()
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
