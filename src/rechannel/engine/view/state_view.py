"""Read the live state of operators while the job runs: a scan of the manifest's runs, on Spark or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.engine.journal.incarnations import OPERATORS, since
from rechannel.engine.journal.kept import Version
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.errors import NotReadyError, RefusedError, UnknownOperatorError
from rechannel.kernels.lsm.scan import canonical, finished
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.eventtime import Clock
from rechannel.model.routing import Routing
from rechannel.state.manifest import Manifest

Scan = Callable[[StageProgram, list[TaskState], Clock], Any]
"""(program, tasks, clock that decides which rows count) -> DataFrame."""

ROWS_PER_TASK = 4_000_000
"""Most rows per task of a scan, so that a large state does not have to fit into one task."""


class StateView:
    """Reads state as the journal describes it."""

    def __init__(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        scan: Scan | None = None,
    ) -> None:
        """Bind to a plan. scan: makes a DataFrame whose tasks read state; None makes tables in this process."""
        self._programs = _stateful(plan, programs)
        self._scan = scan

    def switch_to(self, plan: PhysicalPlan, programs: Mapping[str, StageProgram]) -> None:
        """Switch to another version of the dataflow."""
        self._programs = _stateful(plan, programs)

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators with state."""
        return tuple(self._programs)

    def frame(self, operator: str, state: JournalState, timestep: int | None) -> Any:
        """Return state in the operator's view schema: a DataFrame on Spark, a table in process."""
        return self.frames([operator], state, timestep)[operator]

    def frames(
        self,
        operators: Iterable[str],
        state: JournalState,
        timestep: int | None,
        scan: Scan | None = None,
    ) -> dict[str, Any]:
        """Return the state of several operators under one version of the dataflow. scan: replaces the view's own.

        The caller reads the journal's state first: later programs can read what earlier ones wrote.
        """
        programs, scan = self._programs, scan or self._scan
        found = {}
        for operator in operators:
            program = _program(programs, operator)
            tasks, clock = self._tasks(operator, state, timestep)
            if scan is None:
                batches = [finished(program, task, clock) for task in tasks]
                found[operator] = pa.Table.from_batches(batches)
            else:
                found[operator] = scan(program, tasks, clock)
        return found

    def canonical(self, operator: str, state: JournalState, timestep: int | None) -> pa.Table:
        """Return state as stored, in a fixed order."""
        program = _program(self._programs, operator)
        tasks, clock = self._tasks(operator, state, timestep)
        return pa.concat_tables([canonical(program, task, clock) for task in tasks])

    def _tasks(
        self, operator: str, state: JournalState, timestep: int | None
    ) -> tuple[list[TaskState], Clock]:
        manifest, clock = manifest_at(operator, state, timestep)
        rows = sum(run.expected for run in manifest.state)
        pieces = max(1, int(rows // ROWS_PER_TASK) + 1)
        routing = Routing.even(bins=pieces, tasks=pieces)
        owned = [routing.intervals_of(i) for i in range(pieces)]
        return [TaskState(own=own, runs=manifest.within(own)) for own in owned], clock


def version_at(state: JournalState, timestep: int | None) -> Version:
    """Return what was committed at a timestep; None means the latest. Raises NotReadyError if it is not kept."""
    version = state.latest if timestep is None else state.versions.get(timestep)
    if version is None:
        msg = (
            f"state of timestep {timestep} is not kept; kept are {sorted(state.versions)} "
            "(setting keep_versions)"
        )
        raise NotReadyError(msg)
    return version


def manifest_at(operator: str, state: JournalState, timestep: int | None) -> tuple[Manifest, Clock]:
    """Return the manifest of an operator as of a commit, and the commit's clock.

    Raises NotReadyError if the version is not kept, RefusedError if another operator had the name then.
    """
    version = version_at(state, timestep)
    began = since(state.notes, OPERATORS, operator)
    # Its initial state exists as of the timestep before.
    if timestep is not None and timestep < began - 1:
        msg = (
            f"operator {operator!r} exists since timestep {began}: at timestep {timestep} no operator had that name, or"
            f" another one that was removed. Ask for timestep {began} or a later one"
        )
        raise RefusedError(msg)
    return version.manifests.get(operator, Manifest()), version.clock(operator)


def _stateful(
    plan: PhysicalPlan, programs: Mapping[str, StageProgram]
) -> Mapping[str, StageProgram]:
    return {stage.name: programs[stage.name] for stage in plan.stateful}


def _program(programs: Mapping[str, StageProgram], operator: str) -> StageProgram:
    if operator not in programs:
        msg = (
            f"no operator with state is called {operator!r}; operators with state: {list(programs)}"
        )
        raise UnknownOperatorError(msg)
    return programs[operator]
