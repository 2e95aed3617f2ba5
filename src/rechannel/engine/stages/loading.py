"""Load the initial state of operators in bulk.

A job that starts commits it as timestep 0, before it reads input. For an operator that is added to a running job, it is
written ahead and becomes valid at the timestep boundary from which the operator runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rechannel.dataflow.graph.nodes import Stateful
from rechannel.engine.journal.entries import Committed, Intent
from rechannel.engine.journal.log import Journal
from rechannel.engine.journal.state import JournalState
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.tasks.load import conform_state
from rechannel.kernels.tasks.report import TaskReport
from rechannel.kernels.tasks.unit_report import by_operator
from rechannel.model.configuration import Configuration
from rechannel.model.routing import Routing
from rechannel.state.manifest import Edit

ROWS_PER_SLICE = 1 << 21


class Loader(Protocol):
    """Loads a table of state rows with an engine."""

    def rows(self, table: Any) -> int:
        """Return the number of rows of a table."""

    def schema(self, table: Any) -> Any:
        """Return the Arrow schema of a table."""

    def load(
        self,
        program: StageProgram,
        step: StageStep,
        table: Any,
        names: tuple[str, ...],
        slices: Routing,
    ) -> list[TaskReport]:
        """Scatter and write the rows. Returns one report per slice."""


Tables = Mapping[str, tuple[Any, tuple[str, ...]]]
"""Table of state and names of its columns in stored order, by operator."""


def initial_state(
    plan: PhysicalPlan, programs: Mapping[str, StageProgram], state: JournalState, loader: Loader
) -> Tables:
    """Return the initial state that the dataflow declares, if the journal is new. Nothing is loaded yet.

    Raises DataflowError if columns are missing.
    """
    return _made(given_state(plan), programs, loader) if is_new(state) else {}


def is_new(state: JournalState) -> bool:
    """Return whether nothing was committed yet, so that initial state is loaded as timestep 0."""
    return state.last_intended in (None, 0) and state.last_committed is None


def load_initial(
    tables: Tables,
    programs: Mapping[str, StageProgram],
    journal: Journal,
    configuration: Configuration,
    loader: Loader,
    stream_ms: int,
) -> None:
    """Load and commit initial state, if the journal is new. tables: from `initial_state`."""
    if not tables or not is_new(journal.state):
        return
    if journal.state.last_intended is None:
        journal.append(
            Intent(
                timestep=0,
                sources={},
                configuration_version=configuration.version,
                configuration=configuration,
                stream_ms=stream_ms,
            )
        )
    step = StageStep(timestep=0, stream_ms=stream_ms)
    edits = {n: _load(programs[n], step, *table, loader) for n, table in tables.items()}
    journal.append(Committed(timestep=0, edits=edits))


def given_state(plan: PhysicalPlan) -> dict[str, Any]:
    """Return the functions that make the initial state of operators, by operator."""
    return {
        stage.name: node.initial
        for stage in plan.stateful
        if isinstance(node := plan.dataflow.by_name[stage.name], Stateful)
        and node.initial is not None
    }


def load_added(
    given: Mapping[str, Any],
    programs: Mapping[str, StageProgram],
    loader: Loader,
    *,
    timestep: int,
    stream_ms: int,
) -> dict[str, Edit]:
    """Write the initial state of operators that will be added. Returns the edits that add it, by operator.

    given: functions that make tables, by operator. timestep: for the names of the files, the one that comes next, since
    no sweep removes files of later timesteps than the latest committed one. Raises DataflowError.
    """
    step = StageStep(timestep=timestep, stream_ms=stream_ms)
    tables = _made(given, programs, loader)
    return {n: _load(programs[n], step, *table, loader) for n, table in tables.items()}


def _made(
    given: Mapping[str, Any], programs: Mapping[str, StageProgram], loader: Loader
) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return the tables with their columns in stored order. All tables are checked before the first is loaded."""
    tables = {name: make() if callable(make) else make for name, make in given.items()}
    return {
        name: (table, tuple(conform_state(programs[name], loader.schema(table))))
        for name, table in tables.items()
    }


def _load(
    program: StageProgram, step: StageStep, table: Any, names: tuple[str, ...], loader: Loader
) -> Edit:
    slices = max(1, -(-loader.rows(table) // ROWS_PER_SLICE))
    routing = Routing.even(bins=slices, tasks=slices)
    (report,) = by_operator(loader.load(program, step, table, names, routing))
    return report.edit
