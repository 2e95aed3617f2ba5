"""Executions of Spark SQL, with their plans, and the driver's figures of them, as long as there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from sys import intern

from rechannel.profiling.spark.application import Execution
from rechannel.profiling.spark.plans import DETAIL
from rechannel.profiling.spark.sql_events import (
    DriverMetrics,
    PlanMetric,
    PlanNode,
    SqlEnded,
    SqlPlanned,
    SqlStarted,
)
from rechannel.profiling.spark.texts import first_line, shortened

ROOM = 500_000
"""Nodes and metrics of plans, and values of metrics, that are kept, about 100 bytes each."""
_WRITES = re.compile(
    r"Insert|Write|SaveInto|AppendData|Overwrite|AsSelect|ReplaceData|AtomicReplace|MergeInto"
)
"""Matches names of nodes that write files or tables."""


@dataclass(slots=True)
class Executions:
    """What has been read of executions so far."""

    known: dict[int, Execution] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)
    """By execution that has its plan, the nodes, metrics and values that it takes."""
    _values: dict[int, dict[int, int]] = field(default_factory=dict)
    """Values of metrics of these."""
    _held: int = 0
    _ended: list[tuple[int, int]] = field(default_factory=list)
    """Length and number of executions that ended and have their plan: a heap."""

    def root(self, execution: int) -> int:
        """Return the execution of which one is a part; itself if that is not a part of another."""
        known = self.known.get(execution)
        return execution if known is None or known.root is None else known.root

    def see(self, event: SqlStarted | SqlPlanned | SqlEnded | DriverMetrics) -> None:
        """Take up an event."""
        number = event.execution
        known = self.known.get(number, Execution(number=number, start=0))
        match event:
            case SqlStarted():
                known = replace(
                    known,
                    start=event.time,
                    description=shortened(event.description or ""),
                    root=None if event.root == number else event.root,
                )
                self.known[number] = self._planned(known, event.plan)
            case SqlPlanned():
                self.known[number] = self._planned(known, event.plan)
            case SqlEnded():
                failure = first_line(event.error or "")
                self.known[number] = replace(known, end=event.time, failure=failure)
                if known.plan is not None:
                    heappush(self._ended, (max(0, event.time - known.start), number))
            case DriverMetrics():
                self._measured(number, event.values)

    def _planned(self, known: Execution, plan: PlanNode) -> Execution:
        """Return an execution with its plan, and drop other plans if there is no room."""
        nodes = list(nodes_of(plan))
        values = self._values.setdefault(known.number, {})
        self._take(known.number, sum(1 + len(node.metrics) for node in nodes) + len(values))
        writes = known.writes or any(_WRITES.search(node.name) for node in nodes)
        return replace(known, plan=_cut(plan), writes=writes, metrics=values)

    def _measured(self, number: int, told: Sequence[tuple[int, int]]) -> None:
        """Take values of metrics, which are of use as long as there is a plan that names them."""
        values, size = self._values.get(number), self._sizes.get(number, 0)
        if values is not None and size + len(told) <= ROOM:
            before = len(values)
            values.update(told)
            self._take(number, size + len(values) - before)

    def _take(self, number: int, size: int) -> None:
        """Note what an execution takes, and drop plans of others if there is no room."""
        self._held += size - self._sizes.pop(number, 0)
        self._sizes[number] = size
        while self._held > ROOM and len(self._sizes) > 1:
            other = heappop(self._ended)[1] if self._ended else next(iter(self._sizes))
            if other == number:
                break
            if other in self._sizes:
                self._held -= self._sizes.pop(other)
                del self._values[other]
                self.known[other] = replace(self.known[other], plan=None, metrics={})


def nodes_of(plan: PlanNode) -> Iterator[PlanNode]:
    """Iterate over a node and everything below it, parents first."""
    left = [plan]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(node.children))


def _cut(node: PlanNode) -> PlanNode:
    """Return a plan whose texts are short, and whose names are there once."""
    return PlanNode(
        name=intern(node.name),
        text=node.text[:DETAIL],
        children=[_cut(child) for child in node.children],
        metrics=[
            PlanMetric(accumulator=each.accumulator, name=intern(each.name), kind=intern(each.kind))
            for each in node.metrics
        ],
    )
