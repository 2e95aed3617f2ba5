"""The live state of an operator, readable while the job runs: a scan of the manifest's runs, on Spark or here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.engine.journal_state import JournalState
from rechannel.engine.physical import PhysicalPlan
from rechannel.errors import NotReadyError, UnknownOperatorError
from rechannel.kernels.program import StageProgram, TaskState
from rechannel.kernels.scan import canonical, finished
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
        self._plan = plan
        self._programs = programs
        self._scan = scan

    def exchange(self, plan: PhysicalPlan, programs: Mapping[str, StageProgram]) -> None:
        """Another version of the dataflow runs from now on."""
        self._plan, self._programs = plan, programs

    def frame(self, operator: str, state: JournalState, timestep: int | None) -> Any:
        """State in the operator's output columns: a DataFrame on Spark, a table in process."""
        program = self._program(operator)
        tasks, clock = self._tasks(operator, state, timestep)
        if self._scan is None:
            batches = [finished(program, task, clock) for task in tasks]
            return pa.Table.from_batches(batches)
        return self._scan(program, tasks, clock)

    def canonical(self, operator: str, state: JournalState, timestep: int | None) -> pa.Table:
        """State exactly as stored, in one order."""
        program = self._program(operator)
        tasks, clock = self._tasks(operator, state, timestep)
        return pa.concat_tables([canonical(program, task, clock) for task in tasks])

    def _program(self, operator: str) -> StageProgram:
        names = [stage.name for stage in self._plan.stateful]
        if operator not in names:
            msg = f"there is no operator with state called {operator!r}; there are {names}"
            raise UnknownOperatorError(msg)
        return self._programs[operator]

    def _tasks(
        self, operator: str, state: JournalState, timestep: int | None
    ) -> tuple[list[TaskState], Clock]:
        manifest, clock = manifest_at(operator, state, timestep)
        rows = sum(run.rows_in(run.clip) for run in manifest.state)
        pieces = max(1, int(rows // ROWS_PER_TASK) + 1)
        routing = Routing.even(bins=pieces, tasks=pieces)
        owned = [routing.intervals_of(i) for i in range(pieces)]
        return [TaskState(own=own, runs=manifest.within(own)) for own in owned], clock


def manifest_at(operator: str, state: JournalState, timestep: int | None) -> tuple[Manifest, Clock]:
    """The manifest of an operator as of a commit, and the commit's times. Raises NotReadyError where it is not kept."""
    version = state.latest if timestep is None else state.versions.get(timestep)
    if version is None:
        msg = (
            f"state of timestep {timestep} is not kept; kept are {sorted(state.versions)} "
            "(setting keep_versions)"
        )
        raise NotReadyError(msg)
    return version.manifests.get(operator, Manifest()), version.clock(operator)
