"""How many tasks read a source: no more than run at once, as long as they are short.

Spark needs some 20 ms of its own for every task. Four tasks that read for 10 ms each keep two cores busy for 60 ms; two
tasks that read twice as much need 40. Long tasks stay as many as were asked for, so that they even out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rechannel.kernels.tasks.unit_report import UnitReport

SHORT_MS = 100.0
"""How long a task may take that stands for several."""


@dataclass
class ShortTasks:
    """What the tasks of each operator took in the latest timestep."""

    _took_ms: dict[str, float] = field(default_factory=dict)

    def learn(self, reports: Iterable[UnitReport]) -> None:
        """Remember what tasks took."""
        for report in reports:
            self._took_ms[report.operator] = report.took_ms

    def number(self, operator: str, tasks: int, cores: int) -> int:
        """Return how many tasks read what `tasks` would. cores: tasks that run at once; 0 = not known."""
        took = self._took_ms.get(operator)
        if took is None or not 0 < cores < tasks or took / cores > SHORT_MS:
            return tasks
        return cores
