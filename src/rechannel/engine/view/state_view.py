"""The live state of an operator, readable while the job runs: a scan of the manifest's runs, on Spark or here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.engine.journal.incarnations import OPERATORS, since
from rechannel.engine.journal.state import JournalState, Version
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.errors import NotReadyError, RefusedError, UnknownOperatorError
from rechannel.kernels.lsm.scan import canonical, finished
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.eventtime import Clock
from rechannel.model.routing import Routing
from rechannel.state.manifest import Manifest

Scan = Callable[[StageProgram, list[TaskState], Clock], Any]
"""(program, tasks, times as of which state is seen) -> DataFrame."""

ROWS_PER_TASK = 4_000_000
"""A scan has at least one task per so many rows, so that a large state does not have to fit in one."""


class StateView:
    """Reads state from what the journal says."""

    def __init__(
        self,
        plan: PhysicalPlan,
        programs: Mapping[str, StageProgram],
        scan: Scan | None = None,
    ) -> None:
        """Bind to a plan. scan: makes a DataFrame of tasks that read state; None = tables, made here."""
        self._programs = _stateful(plan, programs)
        self._scan = scan

    def exchange(self, plan: PhysicalPlan, programs: Mapping[str, StageProgram]) -> None:
        """Another version of the dataflow runs from now on."""
        self._programs = _stateful(plan, programs)

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of the operators with state."""
        return tuple(self._programs)

    def frame(self, operator: str, state: JournalState, timestep: int | None) -> Any:
        """State in the operator's output columns: a DataFrame on Spark, a table in process."""
        return self.frames([operator], state, timestep)[operator]

    def frames(
        self,
        operators: Iterable[str],
        state: JournalState,
        timestep: int | None,
        scan: Scan | None = None,
    ) -> dict[str, Any]:
        """The same of several operators, as one version of the dataflow sees them. scan: in place of the view's own.

        The state has to be read before this is called: later programs know what earlier ones wrote.
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
        """State exactly as stored, in one order."""
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
    """What was committed at a timestep; None = the latest. Raises NotReadyError where it is not kept."""
    version = state.latest if timestep is None else state.versions.get(timestep)
    if version is None:
        msg = (
            f"state of timestep {timestep} is not kept; kept are {sorted(state.versions)} "
            "(setting keep_versions)"
        )
        raise NotReadyError(msg)
    return version


def manifest_at(operator: str, state: JournalState, timestep: int | None) -> tuple[Manifest, Clock]:
    """The manifest of an operator as of a commit, and the commit's times.

    Raises NotReadyError where it is not kept, RefusedError where the name was another operator's then.
    """
    version = version_at(state, timestep)
    began = since(state.notes, OPERATORS, operator)
    # What it begins with is there as of the timestep before.
    if timestep is not None and timestep < began - 1:
        msg = (
            f"operator {operator!r} is there since timestep {began}: at timestep {timestep} there was none, or another"
            f" one of that name, which was removed. Ask for timestep {began} or a later one"
        )
        raise RefusedError(msg)
    return version.manifests.get(operator, Manifest()), version.clock(operator)


def _stateful(
    plan: PhysicalPlan, programs: Mapping[str, StageProgram]
) -> Mapping[str, StageProgram]:
    return {stage.name: programs[stage.name] for stage in plan.stateful}


def _program(programs: Mapping[str, StageProgram], operator: str) -> StageProgram:
    if operator not in programs:
        msg = f"there is no operator with state called {operator!r}; there are {list(programs)}"
        raise UnknownOperatorError(msg)
    return programs[operator]
