"""How many tasks of Spark an operator takes: no more than run at once, as long as they are short.

Spark needs 10 to 20 ms of its own for every task. Four tasks that work for 10 ms each keep two cores busy for 40 to
60 ms; two tasks that do twice as much need 30 to 40. Long tasks stay as many as were asked for, so that they even out;
where they are neither, tasks run in two rounds, four, eight and so on. Those of a source get more to read; those of an
operator with state become bundles (`bundles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rechannel.kernels.tasks.unit_report import UnitReport

SHORT_MS = 100.0
"""How long a task of Spark may take that stands for several."""


Sizes: TypeAlias = Mapping[str, float]
"""What is read of each source: in rows, bytes or whatever its splits say, the same every time."""


@dataclass
class ShortTasks:
    """What the tasks of each operator took in the latest timestep."""

    _sizes: dict[str, Sizes] = field(default_factory=dict)
    _took: dict[str, tuple[float, Sizes]] = field(default_factory=dict)
    """Milliseconds, and what was read meanwhile."""

    def number(self, operator: str, tasks: int, at_once: int, sizes: Sizes) -> int:
        """Return how many tasks of Spark do what `tasks` would.

        at_once: tasks that run at once; 0 = not known. sizes: what is read, of one source or of all.
        """
        self._sizes[operator] = sizes
        took_ms = self._expected_ms(operator, sizes)
        if took_ms is None or not 0 < at_once < tasks:
            return tasks
        rounds = 1
        while rounds * at_once < tasks and took_ms > SHORT_MS * rounds * at_once:
            rounds *= 2
        return min(tasks, rounds * at_once)

    def _expected_ms(self, operator: str, sizes: Sizes) -> float | None:
        """Return what tasks will take if the source that has grown most is what they depend on; None = not known.

        Without any rows, as when time alone closes windows, what they take has nothing to do with what is read.
        """
        if operator not in self._took or not any(sizes.values()):
            return None
        took_ms, before = self._took[operator]
        growth = 0.0
        for source, size in sizes.items():
            if size > 0:
                if not before.get(source):
                    return None
                growth = max(growth, size / before[source])
        return took_ms * growth

    def learn(self, reports: Iterable[UnitReport]) -> None:
        """Remember what tasks took for what they were given last."""
        for report in reports:
            sizes = self._sizes.get(report.operator, {})
            if any(sizes.values()):
                self._took[report.operator] = report.took_ms, sizes

    def forget(self) -> None:
        """Forget everything: a timestep has failed, perhaps because its tasks were too few."""
        self._took.clear()
