"""How many tasks of Spark an operator takes: no more than run at once, as long as they are short.

Spark needs some 20 ms of its own for every task. Four tasks that work for 10 ms each keep two cores busy for 60 ms; two
tasks that do twice as much need 40. Long tasks stay as many as were asked for, so that they even out; where they are
neither, tasks run in two rounds, four, eight and so on. Those of a source get more to read; those of an operator with
state become bundles (`bundles`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rechannel.kernels.tasks.unit_report import UnitReport

SHORT_MS = 100.0
"""How long a task of Spark may take that stands for several."""


@dataclass
class ShortTasks:
    """What the tasks of each operator took in the latest timestep."""

    _sizes: dict[str, float] = field(default_factory=dict)
    _took_ms: dict[str, float] = field(default_factory=dict)
    """For each unit of size."""

    def number(self, operator: str, tasks: int, at_once: int, size: float) -> int:
        """Return how many tasks of Spark do what `tasks` would.

        at_once: tasks that run at once; 0 = not known. size: of what the timestep, or the source, reads, in any unit
        that is the same every time.
        """
        self._sizes[operator] = size
        took = self._took_ms.get(operator)
        if took is None or not 0 < at_once < tasks:
            return tasks
        rounds = 1
        while rounds * at_once < tasks and took * size > SHORT_MS * rounds * at_once:
            rounds *= 2
        return min(tasks, rounds * at_once)

    def learn(self, reports: Iterable[UnitReport]) -> None:
        """Remember what tasks took for the size that they were given last."""
        for report in reports:
            if self._sizes.get(report.operator, 0) > 0:
                self._took_ms[report.operator] = report.took_ms / self._sizes[report.operator]

    def forget(self) -> None:
        """Forget everything: a timestep has failed, perhaps because its tasks were too few."""
        self._took_ms.clear()
