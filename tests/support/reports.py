"""Reports of tasks that did nothing but what a test says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rechannel.kernels.tasks.report import Emitted, StateReport, TaskCosts, TaskReport
from rechannel.state.manifest import Edit

COSTS = TaskCosts(host="h", pid=1, started_ms=0.0, finished_ms=1.0, cpu_ms=1.0, ms={}, counts={})


def reported(operator: str, task: int = 0, state: StateReport | None = None, **emitted: Any) -> Any:
    """A task's report."""
    return TaskReport(
        operator=operator,
        timestep=1,
        task=task,
        attempt="a",
        costs=COSTS,
        emitted=Emitted(**emitted),
        state=state,
    )


def edited(edit: Edit | None = None, **more: Any) -> StateReport:
    """What a report says of state."""
    return StateReport(edit=Edit() if edit is None else edit, **more)


def reports_in(found: Iterable[Any]) -> list[TaskReport]:
    """The reports of single tasks, out of what a runner returned of operators with few."""
    return [each for report in found for each in report.reports]
