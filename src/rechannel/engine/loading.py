"""Timestep 0: state that a job starts with, loaded in bulk and committed before the first input is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rechannel.dataflow.graph import Stateful
from rechannel.engine.entries import Committed, Intent
from rechannel.engine.journal import Journal
from rechannel.engine.physical import PhysicalPlan
from rechannel.engine.runner import Report
from rechannel.engine.steps import edit_of
from rechannel.kernels.load import conform_state
from rechannel.kernels.program import StageProgram, StageStep
from rechannel.model.configuration import Configuration
from rechannel.model.routing import Routing

ROWS_PER_SLICE = 1 << 21


class Loader(Protocol):
    """Loads a table of state rows with an engine."""

    def rows(self, table: Any) -> int:
        """How many rows a table has."""

    def schema(self, table: Any) -> Any:
        """Its Arrow schema."""

    def load(
        self,
        program: StageProgram,
        step: StageStep,
        table: Any,
        names: tuple[str, ...],
        slices: Routing,
    ) -> list[Report]:
        """Scatter and write; one report per slice."""


def load_initial(
    plan: PhysicalPlan,
    programs: Mapping[str, StageProgram],
    journal: Journal,
    configuration: Configuration,
    loader: Loader,
    now_ms: int,
) -> None:
    """Load and commit what the dataflow gives as initial state, if the journal is new. Raises DataflowError."""
    if journal.state.last_intended not in (None, 0) or journal.state.last_committed is not None:
        return
    given = {
        stage.name: node.initial
        for stage in plan.stateful
        if isinstance(node := plan.dataflow.by_name[stage.name], Stateful)
        and node.initial is not None
    }
    if not given:
        return
    tables = {name: make() if callable(make) else make for name, make in given.items()}
    names = {
        name: tuple(conform_state(programs[name], loader.schema(table)))
        for name, table in tables.items()
    }
    if journal.state.last_intended is None:
        journal.append(
            Intent(
                timestep=0,
                sources={},
                configuration_version=configuration.version,
                configuration=configuration,
                now_ms=now_ms,
            )
        )
    edits = {}
    for name, table in tables.items():
        slices = max(1, -(-loader.rows(table) // ROWS_PER_SLICE))
        routing = Routing.even(bins=slices, tasks=slices)
        step = StageStep(timestep=0, now_ms=now_ms)
        reports = loader.load(programs[name], step, table, names[name], routing)
        edits[name] = edit_of(reports, name)
    journal.append(Committed(timestep=0, edits=edits))
